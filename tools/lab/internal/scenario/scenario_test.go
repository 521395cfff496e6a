package scenario

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"7":                "7_server_prefork",
		"7-prefork":        "7_server_prefork",
		"7_server_prefork": "7_server_prefork",
		"7-SERVER-prefork": "7_server_prefork",
		"1":                "1_simple_tcp_server",
		"13":               "13_cpu_intensive_goroutine",
		"http-epoll":       "http-epoll",
		"http_epoll":       "http-epoll",
		"14":               "",
		"":                 "",
		"-":                "",
		"prefork":          "",
	} {
		got, err := Find(name)
		if got.Name != want || (err == nil) != (want != "") {
			t.Errorf("Find(%q) = %q, %v, want %q", name, got.Name, err, want)
		}
	}
}

// TestAll: all thirteen programs of the seed are there, in order, and nothing
// is wrong with any scenario.
func TestAll(t *testing.T) {
	all := All()
	for i, s := range all {
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if s.Protocol == "" || s.Client == "" || s.Summary == "" {
			t.Errorf("%s is incomplete: %+v", s.Name, s)
		}
		if found, err := Find(s.Name); err != nil || found.Name != s.Name {
			t.Errorf("Find(%q) = %q, %v", s.Name, found.Name, err)
		}
		if i < 13 && !strings.HasPrefix(s.Name, strings.SplitN(s.Short, "-", 2)[0]+"_") {
			t.Errorf("%s is short for %s", s.Short, s.Name)
		}
	}
	if len(all) < 22 || all[12].Name != "13_cpu_intensive_goroutine" {
		t.Errorf("%d scenarios", len(all))
	}
}

func TestParseWorkload(t *testing.T) {
	for text, want := range map[string]Workload{
		"echo":    {Kind: Echo},
		"discard": {Kind: Discard},
		"io=10ms": {Kind: IO, Sleep: 10 * time.Millisecond},
		"pow=12":  {Kind: Pow, Bits: 12},
	} {
		got, err := ParseWorkload(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("ParseWorkload(%q) = %+v (%s), %v", text, got, got, err)
		}
	}
	for _, text := range []string{"", "echo=1", "io", "io=", "io=10", "io=-1s", "pow", "pow=0", "pow=29", "pow=x", "sleep=1s"} {
		if got, err := ParseWorkload(text); err == nil {
			t.Errorf("ParseWorkload(%q) = %+v", text, got)
		}
	}
}

func TestWorkloadJSON(t *testing.T) {
	text, err := json.Marshal(Scenario{Workload: Workload{Kind: IO, Sleep: time.Second}})
	var s Scenario
	if err != nil || json.Unmarshal(text, &s) != nil || s.Workload.Sleep != time.Second {
		t.Errorf("%s, %v, %+v", text, err, s)
	}
	if json.Unmarshal([]byte(`{"workload":"nothing"}`), &s) == nil {
		t.Error("an unknown workload was read")
	}
}

func TestSetServer(t *testing.T) {
	for text, want := range map[string]Scenario{
		"epoll":        {Server: Epoll, Protocol: TCP},
		"prefork":      {Server: Prefork, Protocol: TCP},
		"http":         {Server: Epoll, Protocol: HTTP},
		"http-prefork": {Server: Prefork, Protocol: HTTP},
		"https":        {Server: Epoll, Protocol: HTTPS},
		"https-epoll":  {Server: Epoll, Protocol: HTTPS},
		"ws":           {Server: Epoll, Protocol: WebSocket},
		"ws-goroutine": {Server: Goroutine, Protocol: WebSocket},
		"sse":          {Server: Epoll, Protocol: SSE},
		"sse-epoll":    {Server: Epoll, Protocol: SSE},
		"tcp-epoll":    {},
		"wss-epoll":    {},
		"udp":          {},
		"http-":        {},
		"":             {},
	} {
		s := Scenario{Protocol: TCP}
		err := s.SetServer(text)
		if (err == nil) != (want.Server != "") || err == nil && (s.Server != want.Server || s.Protocol != want.Protocol || s.Client != want.Client) {
			t.Errorf("SetServer(%q): %+v, %v", text, s, err)
		}
	}
	s := Scenario{Protocol: HTTP}
	if s.SetServer("prefork") != nil || s.ServerName() != "http-prefork" || s.SetServer(s.ServerName()) != nil || s.ServerName() != "http-prefork" {
		t.Errorf("a scenario of HTTP is %s", s.ServerName())
	}
	if s.SetClient("goroutine") != nil || s.Client != GoroutineClient || s.SetClient("x") == nil {
		t.Errorf("SetClient: %+v", s)
	}
}

func TestCheck(t *testing.T) {
	good := Scenario{Protocol: TCP, Server: Epoll, Workload: Workload{Kind: Echo}, Conns: 1}
	for name, spoil := range map[string]func(*Scenario){
		"none":             func(s *Scenario) { s.Conns = 0 },
		"too many":         func(s *Scenario) { s.Conns = maxConns + 1 },
		"largest number":   func(s *Scenario) { s.Conns = math.MaxInt },
		"loops":            func(s *Scenario) { s.Loops = -1 },
		"too many loops":   func(s *Scenario) { s.Loops = math.MaxInt },
		"client loops":     func(s *Scenario) { s.ClientLoops = math.MaxInt },
		"workers":          func(s *Scenario) { s.Workers = math.MaxInt },
		"discard":          func(s *Scenario) { s.Protocol, s.Workload.Kind = HTTP, Discard },
		"discard, TLS":     func(s *Scenario) { s.Protocol, s.Workload.Kind = HTTPS, Discard },
		"compact, no TLS":  func(s *Scenario) { s.Protocol, s.CompactTLS = HTTP, true },
		"compact, no loop": func(s *Scenario) { s.Protocol, s.Server, s.CompactTLS = HTTPS, Goroutine, true },
		"prefork, events":  func(s *Scenario) { s.Protocol, s.Server = SSE, Prefork },
		"shared":           func(s *Scenario) { s.Shared = true },
	} {
		s := good
		if s.Check() != nil {
			t.Fatal(s.Check())
		}
		spoil(&s)
		if s.Check() == nil {
			t.Errorf("%s: nothing is wrong with %+v", name, s)
		}
	}
}

func TestGroup(t *testing.T) {
	seeds, isGroup := Group("seeds")
	all, isToo := Group("ALL")
	if !isGroup || !isToo || len(seeds) != 13 || len(all) != len(All()) || all[0].Protocol != TCP {
		t.Errorf("%d seeds of %d", len(seeds), len(all))
	}
	if s, err := Find("https-compact"); err != nil || !s.CompactTLS || s.ServerName() != "https-epoll" || s.Client != EpollClient {
		t.Errorf("https-compact: %+v, %v", s, err)
	}
	if _, isGroup := Group("6"); isGroup {
		t.Error("6 is taken for a group")
	}
}
