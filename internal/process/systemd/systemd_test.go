package systemd

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	const pid = 42
	for _, c := range []struct {
		values   string
		socket   string
		watchdog time.Duration
		stores   bool
		sockets  []string
		err      string
	}{
		{"", "", 0, false, nil, ""},
		{"NOTIFY_SOCKET=/run/systemd/notify", "/run/systemd/notify", 0, false, nil, ""},
		{"NOTIFY_SOCKET=@abstract", "@abstract", 0, false, nil, ""},
		{"NOTIFY_SOCKET=vsock:2:1", "", 0, false, nil, "vsock:2:1 is not a unix socket"},
		{"WATCHDOG_USEC=3000000", "", 3 * time.Second, false, nil, ""},
		{"WATCHDOG_USEC=3000000 WATCHDOG_PID=42", "", 3 * time.Second, false, nil, ""},
		{"WATCHDOG_USEC=3000000 WATCHDOG_PID=41", "", 0, false, nil, ""},
		{"WATCHDOG_USEC=0", "", 0, false, nil, "WATCHDOG_USEC=0"},
		{"WATCHDOG_USEC=x", "", 0, false, nil, "WATCHDOG_USEC=x"},
		{"WATCHDOG_USEC=9223372036854775807", "", 0, false, nil, "no time"},
		{"FDSTORE=64", "", 0, true, nil, ""},
		{"FDSTORE=0", "", 0, false, nil, ""},
		{"LISTEN_PID=42 LISTEN_FDS=2 LISTEN_FDNAMES=web:admin", "", 0, false, []string{"web", "admin"}, ""},
		{"LISTEN_PID=42 LISTEN_FDS=2", "", 0, false, []string{"", ""}, ""},
		{"LISTEN_PID=42 LISTEN_FDS=1 LISTEN_FDNAMES=a:b:c", "", 0, false, []string{"a"}, ""},
		{"LISTEN_PID=42 LISTEN_FDS=0", "", 0, false, []string{}, ""},
		{"LISTEN_PID=41 LISTEN_FDS=2", "", 0, false, nil, ""},
		{"LISTEN_FDS=2", "", 0, false, nil, ""},
		{"LISTEN_PID=42", "", 0, false, nil, "LISTEN_FDS= is no number"},
		{"LISTEN_PID=42 LISTEN_FDS=-1", "", 0, false, nil, "LISTEN_FDS=-1"},
		{"LISTEN_PID=42 LISTEN_FDS=4097", "", 0, false, nil, "LISTEN_FDS=4097"},
	} {
		values := make(map[string]string)
		for entry := range strings.FieldsSeq(c.values) {
			name, value, _ := strings.Cut(entry, "=")
			values[name] = value
		}
		s, sockets, err := parse(values, pid)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v", c.values, err)
			}
			continue
		}
		if err != nil || s.socket != c.socket || s.Notifies() != (c.socket != "") || s.Watchdog != c.watchdog || s.stores != c.stores || !slices.Equal(sockets, c.sockets) {
			t.Errorf("%s: %+v, %q, %v", c.values, s, sockets, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("42", "2", "a:b", "1000", "42", "/run/x")
	f.Fuzz(func(t *testing.T, pid, fds, names, usec, watchdogPID, socket string) {
		s, sockets, err := parse(map[string]string{"LISTEN_PID": pid, "LISTEN_FDS": fds, "LISTEN_FDNAMES": names,
			"WATCHDOG_USEC": usec, "WATCHDOG_PID": watchdogPID, "NOTIFY_SOCKET": socket}, 42)
		if err == nil && (s.Watchdog < 0 || len(sockets) > maxSockets || len(sockets) > 0 && pid != "42") {
			t.Errorf("%+v, %d sockets", s, len(sockets))
		}
	})
}

// passed returns a service with sockets: a name, a blank, and an address each.
func passed(t *testing.T, sockets ...string) *Service {
	t.Helper()
	s := &Service{}
	for _, text := range sockets {
		name, address, _ := strings.Cut(text, " ")
		socket := Socket{Name: name}
		if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
			socket.Addr = &net.UnixAddr{Net: "unix", Name: path}
		} else if address != "" {
			addr, err := net.ResolveTCPAddr("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			socket.Addr = addr
		}
		s.Sockets = append(s.Sockets, socket)
	}
	return s
}

func TestClaim(t *testing.T) {
	all := []string{"web [::]:80", "web 127.0.0.1:8080", "other 0.0.0.0:81", "path unix:/run/s", "mail", "six [::1]:82"}
	for _, c := range []struct {
		network, address string
		want             string // the claimed ones
	}{
		{"tcp", ":80", `"web" on [::]:80`},
		{"tcp4", ":80", `"web" on [::]:80`}, // it takes IPv4, too
		{"tcp", "127.0.0.1:8080", `"web" on 127.0.0.1:8080`},
		{"tcp", ":8080", ""},
		{"tcp", "127.0.0.1:80", ""},
		{"tcp6", "[::]:81", `"other" on 0.0.0.0:81`},
		{"tcp", "[::1]:82", `"six" on [::1]:82`},
		{"tcp", "127.0.0.1:0", ""},
		{"tcp", "nonsense", ""},
		{"unix", "/run/s", `"path" on /run/s`},
		{"unix", "/run/t", ""},
		{"tcp", "fd:web", `"web" on [::]:80, "web" on 127.0.0.1:8080`},
		{"tcp", "fd:path", `"path" on /run/s`},
		{"tcp", "fd:mail", `error sluice: systemd has passed no listening socket "mail" to this process: there are "web" on [::]:80, "web" on 127.0.0.1:8080, "other" on 0.0.0.0:81, "path" on /run/s, "mail", which does not listen, "six" on [::1]:82`},
	} {
		s := passed(t, all...)
		claimed, err := s.Claim(c.network, c.address)
		var texts []string
		for _, socket := range claimed {
			texts = append(texts, socket.String())
		}
		got := strings.Join(texts, ", ")
		if err != nil {
			got = "error " + err.Error()
		}
		if got != c.want || len(claimed)+len(s.Sockets) != len(all) {
			t.Errorf("%s %s: %s, want %s", c.network, c.address, got, c.want)
		}
	}
	s := passed(t, Stored+" [::]:80", Stored+" 0.0.0.0:80")
	claimed, err := s.Claim("tcp", ":80")
	if err != nil || len(claimed) != 2 || len(s.claimed) != 2 {
		t.Fatalf("%v, %v, %v", claimed, s.claimed, err)
	}
	if s.Unclaim(claimed[1:]...); !slices.Equal(s.claimed, claimed[:1]) || !slices.Equal(s.Sockets, claimed[1:]) {
		t.Errorf("%v, %v", s.claimed, s.Sockets)
	}
	if _, err := (&Service{}).Claim("tcp", "fd:x"); err == nil || !strings.Contains(err.Error(), "there are none") {
		t.Error(err)
	}
	if !IsName("fd:x") || IsName("x:80") {
		t.Error("IsName")
	}
}

func TestLines(t *testing.T) {
	if got := Status("a\nREADY=1"); got != "STATUS=a READY=1" {
		t.Errorf("%q", got)
	}
	if got := strings.Join(Stopping(1500*time.Millisecond), "\n"); got != "STOPPING=1\nEXTEND_TIMEOUT_USEC=1500000" {
		t.Errorf("%q", got)
	}
	if got := Reloading(); got[0] != "RELOADING=1" || !strings.HasPrefix(got[1], "MONOTONIC_USEC=") {
		t.Errorf("%q", got)
	}
}
