# The caretaker of a sandbox with bubblewrap (docs/sandbox.md), started as `python3 -I -S -B -c
# <this text> bwrap`.
#
# Bubblewrap's second process waits for a message of its first before it is bound to it. If Tenon is
# killed at that moment, the kernel ends the first process, and the second would wait forever. Each
# first process therefore sends its number on descriptor 0 before it begins. When Tenon is gone,
# this program ends what is left of their sessions.
import os
import sys
import time

YOUNG = 60.0  # seconds after which a start has succeeded or has been given up

name, started = sys.argv[1][:15], []
while True:
    number = os.read(0, 64)
    if not number:
        break
    now = time.monotonic()
    started = [one for one in started if now - one[1] < YOUNG]
    started.append((int.from_bytes(number, sys.byteorder), now))

sessions = {number for number, _ in started}
for _ in range(20):
    for entry in os.listdir("/proc"):
        try:
            stat = open("/proc/%d/stat" % int(entry)).read()
            begin, end = stat.index("("), stat.rindex(")")
            if stat[begin + 1 : end] == name and int(stat[end + 2 :].split()[3]) in sessions:
                os.kill(int(entry), 9)
        except (OSError, ValueError):
            pass
    time.sleep(0.05)
