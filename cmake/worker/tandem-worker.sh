#!/bin/sh
# The program of the package tandem-worker: tandem without its simulator.
exec /usr/lib/tandem-worker/bin/tandem "$@"
