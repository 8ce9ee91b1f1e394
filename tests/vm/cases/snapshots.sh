# slow: more copies; pauses, differences, damaged files, a monitor that is killed meanwhile.
vm-snap /var/lib/ward /tpl 2 || fail "status $?"
