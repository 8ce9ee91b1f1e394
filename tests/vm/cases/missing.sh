# slow: what is not there.
is "$($VM -- /no/such/thing 2>/dev/null; echo $?)" 127
