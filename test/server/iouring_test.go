package server_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestIOUringNames(t *testing.T) {
	for value, name := range map[sluice.IOUring]string{
		sluice.IOUringAuto: "auto", sluice.IOUringOn: "on", sluice.IOUringOff: "off",
	} {
		if value.String() != name {
			t.Errorf("%d is %q, want %q", value, value, name)
		}
		if got, err := sluice.ParseIOUring(name); got != value || err != nil {
			t.Errorf("%q is %v, %v", name, got, err)
		}
		text, err := json.Marshal(value)
		if err != nil || string(text) != `"`+name+`"` {
			t.Errorf("as JSON: %s, %v", text, err)
		}
		read := sluice.IOUring(99)
		if err := json.Unmarshal(text, &read); err != nil || read != value {
			t.Errorf("from JSON: %v, %v", read, err)
		}
	}
	for _, name := range []string{"", "On", "yes", "off "} {
		var value sluice.IOUring
		_, err := sluice.ParseIOUring(name)
		if err == nil || !strings.Contains(err.Error(), "auto, on or off") || value.UnmarshalText([]byte(name)) == nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	strange := sluice.IOUring(9)
	if _, err := strange.MarshalText(); err == nil || strange.String() != "IOUring(9)" {
		t.Errorf("%v, %v", strange, err)
	}
}

// TestEngineInfoOfIOUring: io_uring is used where it is asked for and works, and by default
// with one processor; otherwise there is a reason, or io_uring was not asked for.
func TestEngineInfoOfIOUring(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	works := (&sluice.Server{IOUring: sluice.IOUringOn}).EngineInfo(nil).IOUring
	for _, test := range []struct {
		procs  int
		engine sluice.Engine
		value  sluice.IOUring
		is     bool
		about  string // the end of the text, where io_uring works
	}{
		{1, sluice.EngineAuto, sluice.IOUringAuto, true, "; io_uring)"},
		{2, sluice.EngineAuto, sluice.IOUringAuto, false, "(auto: linux)"},
		{1, sluice.EngineAuto, sluice.IOUringOff, false, "(auto: linux)"},
		{2, sluice.EngineEpoll, sluice.IOUringOn, true, "(as set; io_uring)"},
		{1, sluice.EnginePerConn, sluice.IOUringAuto, false, "perconn (as set)"},
		{1, sluice.EnginePerConn, sluice.IOUringOn, false, "(as set; no io_uring: engine perconn serves)"},
	} {
		if test.engine != sluice.EnginePerConn && !harness.HasEpoll() {
			continue
		}
		runtime.GOMAXPROCS(test.procs)
		info := (&sluice.Server{Engine: test.engine, IOUring: test.value}).EngineInfo(nil)
		switch {
		case test.is && !works:
			if info.IOUring || info.IOUringObstacle == "" || !strings.Contains(info.String(), "no io_uring: "+info.IOUringObstacle) {
				t.Errorf("%+v: %v", test, info)
			}
		case info.IOUring != test.is || !strings.HasSuffix(info.String(), test.about):
			t.Errorf("%+v: %v", test, info)
		}
	}
}
