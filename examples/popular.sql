-- The five most popular pages of a log, and how much of it they are:
--     gyre query -f examples/popular.sql
-- where log.csv has a header and columns page and status.
create view visits as
    select page, count(*) as visits, sum(case when status >= 400 then 1 else 0 end) as failed
    from "log.csv"
    where page not like '%.css'
    group by page;

select page, visits, failed, round(100.0 * visits / (select sum(visits) from visits), 1) as percent
from visits
order by visits desc, page
limit 5;
