package websockets

import (
	"log"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// otherRole is the argument that makes this program one of --program.
const otherRole = "echo"

// echoOn serves an address.
func echoOn(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return newGWS().Serve(ln)
}

func TestMain(m *testing.M) {
	roles := servers.Roles()
	for name, role := range Roles() {
		roles[name] = role
	}
	process.Main(roles)
	if len(os.Args) == 3 && os.Args[1] == otherRole {
		if err := echoOn(os.Args[2]); err != nil {
			log.Fatal(err)
		}
	}
	os.Exit(m.Run())
}

func TestParseFlags(t *testing.T) {
	o, err := command.Parse(flags, "--rounds", "2", "--duration", "10ms", "--conns", "20", "--case", "32 B", "--servers", "epoll,coder", "--program", "other=x {port}")
	if err != nil || o.rounds != 2 || o.duration != 10*time.Millisecond || o.conns != 20 || len(o.cases) != 1 || !o.broadcast {
		t.Errorf("options %+v, %v", o, err)
	}
	if want := []string{epoll, coder, echoBaseline, "other"}; !slices.Equal(o.kinds, want) {
		t.Errorf("servers %q, want %q", o.kinds, want)
	}
	for _, bad := range [][]string{{"--rounds", "0"}, {"--duration", "0s"}, {"--conns", "0"}, {"--case", "("}, {"--case", "none"}, {"--servers", "nginx"}, {"--program", "epoll=x"}} {
		if _, err := command.Parse(flags, bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// TestMeasure has every server answer each kind of message, and broadcast.
func TestMeasure(t *testing.T) {
	if err := command.Require("taskset"); err != nil {
		t.Skip(err)
	}
	o := options{rounds: 1, messages: 400, conns: 20, before: os.Args[0], others: map[string]string{"other": os.Args[0] + " " + otherRole + " {addr}"}}
	o.kinds = append(slices.Clone(allKinds), before, "other")
	for _, c := range []echoCase{echoCases[0], echoCases[2]} {
		all, err := measureEcho(t.Context(), o, c)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, kind := range o.kinds {
			if got := all[kind]; len(got.cpu) != 1 || got.failures != 0 {
				t.Errorf("%s, %s: %+v", c.name, kind, got)
			}
		}
	}
	o.kinds = o.broadcasters()
	all, err := measureBroadcast(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range o.kinds {
		if got := all[kind]; len(got.cpu) != 1 || got.cpu[0] <= 0 {
			t.Errorf("%s: %+v", kind, got)
		}
	}
}
