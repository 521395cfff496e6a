package upgrade

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A testFamily is the Host of its connections, too.
type testFamily struct {
	Host
	name string
	made int
}

func (f *testFamily) Name() string { return f.name }

func (f *testFamily) NewHost(Server) Host {
	f.made++
	return f
}

// TestRegister: each name belongs to one Family, and its length is bounded.
func TestRegister(t *testing.T) {
	var h Hosts
	longest := strings.Repeat("n", MaxName)
	first := &testFamily{name: "a"}
	for _, test := range []struct {
		what   string
		family Family
		isGood bool
	}{
		{"a name", first, true},
		{"the same again", first, true},
		{"the name of another", &testFamily{name: "a"}, false},
		{"no name", &testFamily{}, false},
		{"the longest name", &testFamily{name: longest}, true},
		{"a longer one", &testFamily{name: longest + "n"}, false},
	} {
		if err := h.register(test.family); (err == nil) != test.isGood {
			t.Errorf("%s: %v", test.what, err)
		}
	}
	if n := len(h.Families()); n != 2 || h.Named("a") != first || h.Named("") != nil {
		t.Errorf("%d families", n)
	}
}

type testEngine struct {
	engine.Engine
	_ byte // so that two have two addresses
}

// TestHosts: there is one Host for a Family and an engine, and a limit for all.
func TestHosts(t *testing.T) {
	var h Hosts
	var place uint64
	var isRegistered bool
	newServer := func(p uint64, r bool) Server {
		place, isRegistered = p, r
		return nil
	}
	if !h.IsEmpty() {
		t.Error("the zero value has Hosts")
	}
	hosts := make([]placedHost, MaxHosts-2)
	h.all.Store(&hosts)
	known, other, last := &testFamily{name: "known"}, &testEngine{}, &testFamily{}
	if err := h.register(known); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if h.Of(known, other, newServer) != known || known.made != 1 || place != MaxHosts-2 || !isRegistered || h.At(place) != known {
			t.Errorf("made %d times, at %d, registered %v", known.made, place, isRegistered)
		}
	}
	if h.Of(known, &testEngine{}, newServer) != known || known.made != 2 || h.IsEmpty() {
		t.Error("another engine has no Host of its own")
	}
	if h.Of(last, other, newServer) != nil || last.made != 0 {
		t.Error("there are more than MaxHosts")
	}
}

// TestValues: a field is found in any spelling, and nothing else is. What is not there
// allocates nothing.
func TestValues(t *testing.T) {
	text := "upgrade=a,Upgrades=b,UPGRADE=,Upgrade=c"
	fields := func(yield func(name, value []byte) bool) {
		for field := range strings.SplitSeq(text, ",") {
			name, value, _ := strings.Cut(field, "=")
			if !yield([]byte(name), []byte(value)) {
				return
			}
		}
	}
	for range 2 {
		if got := bytes.Join(Values(fields, "Upgrade"), []byte(",")); string(got) != "a,,c" {
			t.Errorf("%q", got)
		}
		if got := Values(fields, "Downgrade"); len(got) > 0 {
			t.Errorf("%q of a field that is not there", got)
		}
	}
	name, value := []byte("Host"), []byte("h")
	fields = func(yield func(name, value []byte) bool) { yield(name, value) }
	if n := testing.AllocsPerRun(100, func() { Values(fields, "Origin") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
