#!/usr/bin/env python3
"""A browser for $BROWSER that goes to the address, and on to where it is sent: a user who logs in at once."""
import sys
import urllib.request

urllib.request.urlopen(sys.argv[1], timeout=20).read()
