package prefork

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// field returns a line of a worker's /proc/self/status.
func (f *fleet) field(name string) string {
	f.t.Helper()
	_, rest, found := strings.Cut(must(f.t, f, "/file?name=/proc/self/status"), "\n"+name+":\t")
	if !found {
		f.t.Fatalf("there is no %s", name)
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// must returns the answer to a request.
func must(t *testing.T, f *fleet, path string) string {
	t.Helper()
	body, err := f.get(path)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Workers are another user's, and all that they share with the master and with each other
// works as before: sockets, counters, rescue, restarts that hand connections over.
func TestWorkersOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	config := filepath.Join(t.TempDir(), "config") // only root can read it
	if err := os.WriteFile(config, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "socket")
	f := start(t, setup{
		Workers: 2, User: "nobody", NoNew: true, MaxFiles: 1000, Config: config, Listen: []string{unixPrefix + path},
		Admin: "127.0.0.1:0", Grace: patience, Threshold: 9,
	}, true)
	check := func() {
		t.Helper()
		for name, want := range map[string]string{
			"Uid": "65534\t65534\t65534\t65534", "Gid": "65534\t65534\t65534\t65534", "Groups": "65534",
			"NoNewPrivs": "1", "CapEff": "0000000000000000", "CapPrm": "0000000000000000",
		} {
			if got := f.field(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if got := must(t, f, "/file?name="+config); !strings.Contains(got, "permission denied") {
			t.Errorf("the file of root: %q", got)
		}
		if got := must(t, f, "/config"); got != "secret" {
			t.Errorf("the configuration: %q", got)
		}
		if got := must(t, f, "/file?name=/proc/self/limits"); !strings.Contains(strings.Join(strings.Fields(got), " "), "Max open files 1000 1000") {
			t.Errorf("limits: %s", got)
		}
		if _, err := get("unix", path, "/"); err != nil {
			t.Error(err)
		}
	}
	check()
	first := must(t, f, "/count")
	c := f.dial()
	c.get("/")
	if status, body := request(t, "tcp", f.admin(), "POST", "/restart", ""); status != 200 {
		t.Errorf("%d, %q", status, body)
	}
	c.get("/") // on the same connection
	check()
	victim := f.pids()[len(f.pids())-1]
	syscall.Kill(victim, syscall.SIGKILL)
	until(t, "it is replaced", func() bool { s := statusAt(t, "tcp", f.admin()); return s.Ready && s.Crashes == 1 })
	check()
	if second := must(t, f, "/count"); first != "1" || second != "2" {
		t.Errorf("counted %s, %s", first, second)
	}
	if s := statusAt(t, "tcp", f.admin()); len(s.Workers) < 2 || s.Workers[0].ResidentBytes == 0 {
		t.Errorf("%+v", s)
	}
	f.signal(syscall.SIGTERM)
	if status := f.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// A group of its own, and users that are numbers.
func TestCredentials(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, c := range []struct{ user, group, want, err string }{
		{"nobody", "", "65534:65534 [65534]", ""},
		{"65534", "", "65534:65534 [65534]", ""},
		{"nobody", "daemon", "65534:1 [65534]", ""},
		{"nobody", "7", "65534:7 [65534]", ""},
		{"54321", "54321", "54321:54321 []", ""},
		{"", "daemon", "0:1 []", ""},
		{"54321", "", "", "no user has the number 54321: set Group"},
		{"no-such-user", "", "", "unknown user no-such-user"},
		{"nobody", "no-such-group", "", "unknown group no-such-group"},
	} {
		got, err := credentialOf(c.user, c.group)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil || text(got) != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

// text returns the numbers of a credential.
func text(c *syscall.Credential) string {
	groups := []string{}
	for _, g := range c.Groups {
		groups = append(groups, itoa(int(g)))
	}
	return itoa(int(c.Uid)) + ":" + itoa(int(c.Gid)) + " [" + strings.Join(groups, " ") + "]"
}

// What cannot be had is an error before anything starts.
func TestPrivilegesThatCannotBeHad(t *testing.T) {
	for _, c := range []struct {
		p   *Prefork
		err string
	}{
		{&Prefork{User: "no-such-user"}, "no-such-user"},
		{&Prefork{User: "nobody", CommandProducer: func([]*os.File) (*exec.Cmd, error) { return nil, nil }}, "CommandProducer"},
		{&Prefork{MaxFiles: 1 << 62}, "cannot allow 4611686018427387904 descriptors, the limit is "},
	} {
		err := c.p.ListenAndServe("127.0.0.1:0")
		if os.Geteuid() != 0 && c.p.User != "" && c.p.CommandProducer == nil {
			c.err = errNotRoot.Error()
		}
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v", c.p, err)
		}
	}
}
