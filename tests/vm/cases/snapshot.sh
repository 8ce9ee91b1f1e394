# A machine is written down, and copied; copies know who they are: vm_snap.c says what it tries.
vm-snap /var/lib/ward /tpl 1 || fail "status $?"
