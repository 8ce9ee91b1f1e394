# slow: a portable CPU has what all have, and not what this one has beside.
flags() { $VM "$@" -- grep -m 1 '^flags' /proc/cpuinfo; }
host=" $(flags) "; portable=" $(flags --cpu-template portable) "
for f in sse4_2 aes; do case $portable in *" $f "*) ;; *) fail "portable has no $f";; esac; done
for f in clflushopt; do
	case $host in *" $f "*) ;; *) fail "the host has no $f";; esac
	case $portable in *" $f "*) fail "portable has $f";; esac
done
