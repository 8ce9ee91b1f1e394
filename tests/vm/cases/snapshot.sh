# Snapshots, copies that know who they are, pauses, differences: vm_snap.c says what it tries.
vm-snap /var/lib/ward /tpl 2 || fail "status $?"
