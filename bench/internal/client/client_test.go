package client

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
)

func TestMain(m *testing.M) {
	process.Main(Roles())
	os.Exit(m.Run())
}

func startServer(t *testing.T, peer peers.Options) *process.Server {
	t.Helper()
	server, err := process.StartServer(t.Context(), process.ServerOptions{
		Kind: peers.NetHTTP, Peer: peer, Options: process.Options{CPU: process.AnyCPU},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return server
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		n, most int
		want    []int
	}{
		{1, 15, []int{1}}, {15, 15, []int{15}}, {16, 15, []int{8, 8}}, {19, 6, []int{5, 5, 5, 4}},
	} {
		if got := split(c.n, c.most); !slices.Equal(got, c.want) {
			t.Errorf("split(%d, %d) = %v, want %v", c.n, c.most, got, c.want)
		}
	}
}

func TestHold(t *testing.T) {
	for _, overTLS := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS ", overTLS), func(t *testing.T) {
			server := startServer(t, peers.Options{TLS: overTLS})
			before, err := server.Goroutines()
			if err != nil {
				t.Fatal(err)
			}
			clients, err := Hold(t.Context(), HoldConfig{Addr: server.Addr, Conns: 50, TLS: overTLS})
			if err != nil {
				t.Fatal(err)
			}
			if held, err := server.Goroutines(); err != nil || held < before+50 {
				t.Errorf("%d goroutines before, %d with 50 connections, %v", before, held, err)
			}
			if err := process.StopAll(clients); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHoldReportsAServerThatIsNotThere(t *testing.T) {
	if _, err := Hold(t.Context(), HoldConfig{Addr: "127.0.0.1:1", Conns: 1}); err == nil {
		t.Error("no error")
	}
}

func TestPace(t *testing.T) {
	const sleep = 30 * time.Millisecond
	server := startServer(t, peers.Options{Handler: peers.Handler{Mixed: true, Sleep: sleep, Spins: 1}})
	pacer, err := StartPacer(t.Context(), process.Options{CPU: process.AnyCPU}, PaceConfig{
		Addr: server.Addr, Duration: 100 * time.Millisecond, Streams: []Stream{
			{Target: peers.InstantTarget, Conns: 3, Period: 10 * time.Millisecond},
			{Target: peers.SleepTarget, Conns: 2, Period: 10 * time.Millisecond},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		results, err := pacer.Run()
		if err != nil {
			t.Fatal(err)
		}
		for i, planned := range []int{30, 20} {
			r := results[i]
			if r.Planned != planned || r.Answered != planned || r.Errors() != 0 || r.Lost != 0 || r.Latency.Count() != int64(planned) {
				t.Errorf("stream %d: %+v", i, r)
			}
		}
		// Ten requests of 30 ms that are due every 10 ms: the last one waits
		// for those before it, and its wait counts.
		if late := results[1].Latency.Percentile(100); late < 6*sleep {
			t.Errorf("the latest answer took %v", late)
		}
	}
	if err := pacer.Stop(); err != nil {
		t.Error(err)
	}
}

func TestPaceCountsLostConnections(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	pacer, err := StartPacer(t.Context(), process.Options{CPU: process.AnyCPU}, PaceConfig{
		Addr: ln.Addr().String(), Duration: 50 * time.Millisecond,
		Streams: []Stream{{Target: "/", Conns: 4, Period: 10 * time.Millisecond}},
	})
	if err != nil {
		t.Fatal(err)
	}
	results, err := pacer.Run()
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Planned != 20 || r.Errors() != 20 || r.Lost != 4 || r.FirstError == "" {
		t.Errorf("result %+v", r)
	}
	if err := pacer.Stop(); err != nil {
		t.Error(err)
	}
}

func TestChurn(t *testing.T) {
	server := startServer(t, peers.Options{})
	result, err := Churn(t.Context(), ChurnConfig{Addr: server.Addr, Conns: 100, Width: 7})
	if err != nil || result.Opened != 100 || result.Failed != 0 || result.Elapsed <= 0 {
		t.Errorf("result %+v, %v", result, err)
	}
	result, err = Churn(t.Context(), ChurnConfig{Addr: "127.0.0.1:1", Conns: 5, Width: 2})
	if err != nil || result.Failed != 5 || !strings.Contains(result.FirstError, "refused") {
		t.Errorf("without a server: %+v, %v", result, err)
	}
}
