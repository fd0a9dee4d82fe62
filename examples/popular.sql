-- Lecture A's question to a web server's log: which are the five most popular pages?
--     gyre query -f examples/popular.sql
-- where access.log is in the common log format. popular.c asks the same by a graph made by hand,
-- popular_jobs.c by two MapReduce jobs.
select count(*) as visits, split_part(request, ' ', 2) as page
from read_csv('access.log', delim => ' ', header => false,
              columns => 'host text, ident text, login text, day text, zone text, request text, status int, bytes text')
where request like 'GET %'
group by page
order by visits desc, page
limit 5;
