#!/usr/bin/env python3
"""Rooms that a simulator drives take time, chance and settings through gy_env: a link-time check.

Usage: env_check.py LIBRARY...   (static libraries of such rooms)
Looks at the undefined symbols of every object. Exits 1 with one line per breach.
"""
import re
import subprocess
import sys

BANNED = set("""
clock_gettime clock_getres gettimeofday time clock nanosleep clock_nanosleep sleep usleep
timer_create timer_settime timerfd_create setitimer alarm
rand srand rand_r random srandom drand48 erand48 lrand48 getrandom getentropy arc4random
getenv secure_getenv setenv unsetenv putenv clearenv
gy_setting_get gy_setting_choice gy_setting_choose
gy_deadline_after
""".split())
ALLOWED = {  # object: the calls it is there for
    "environment.c.o": {"gy_setting_get"},
    "place.c.o": {"setenv", "unsetenv", "gy_setting_get"},
    "file.c.o": {"gy_setting_get"}, # room coll: which table of gyre tune
    "fault.c.o": {"timer_create", "timer_settime"}, # room flow: a signal to the thread of a late record
    "comm.c.o": {"gy_setting_get"}, # room coll: what a communicator is forced to
    "start.c.o": {"gy_setting_get"}, # room worker: was this process started to serve
    "begin.c.o": {"unsetenv"}, # room worker: what it starts is not
    "ticket.c.o": {"gy_setting_get"}, # room control: what the daemon told this manager
    "ship.c.o": {"gy_setting_get"}, # room cluster: PATH, where a shell would find a program to submit
    "collect.c.o": {"gy_setting_get"}, # room persist: how much the logs of finished jobs may hold
    "override.c.o": {"gy_setting_get"}, # room flow: what `gyre job run` says of jobs
    "resume.c.o": {"gy_setting_get"}, # room flow: which job the program was started again for
    "spool.c.o": {"gy_setting_get"}, # room flow: the folder of the job that standard input is copied to
    "hidden.c.o": {"gy_setting_get"}, # room flow: where the loader looked for what a sandbox hides
    "sandbox.c.o": {"setenv"}, # room worker: where processes behind walls find a folder for a while
    "read.c.o": {"setenv"}, # room persist: what a job that goes on is told
}


def breaches(library):
    listing = subprocess.run(["nm", "-u", "-A", library], check=True, capture_output=True, text=True)
    for line in listing.stdout.splitlines():
        found = re.match(r".*:([^:]+\.o):\s+[Uwv]\s+(\S+)$", line)
        if found:
            member, symbol = found.group(1), found.group(2).split("@")[0]
            if symbol in BANNED and symbol not in ALLOWED.get(member, set()):
                yield f"{library}: {member} calls {symbol}: take it through gy_env"


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: env_check.py LIBRARY...")
    found = [text for library in sys.argv[1:] for text in breaches(library)]
    for text in found:
        print(text)
    print(f"env_check: {len(sys.argv) - 1} libraries, {len(found)} breaches")
    sys.exit(1 if found else 0)


main()
