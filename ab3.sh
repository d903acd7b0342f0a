for i in 1 2 3 4 5 6; do for b in old n6 n4; do /usr/bin/time -f "$b %U" /tmp/$b/bin/reprise info --json $1 2>&1 >/dev/null | tail -1; done; done
