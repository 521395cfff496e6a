package load

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// No request of an open loop is sent before it is due.
func TestRate(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		srv := serve(t, answer(okResponse))
		config.Address, config.Requests, config.Rate = srv.addr, 200, 2000
		for _, config.Depth = range []int{1, 8} {
			result := measure(t, config)
			checkErrors(t, result, [Kinds]int64{})
			if result.Answered != 200 || result.Latency.TotalCount() != 200 || result.Service.TotalCount() != 200 {
				t.Errorf("%d responses, %d latencies", result.Answered, result.Latency.TotalCount())
			}
			if least := 199 * time.Second / 2000; result.Elapsed < least {
				t.Errorf("200 requests at 2000/s in %v", result.Elapsed)
			}
			if result.Latency.Mean() < result.Service.Mean() {
				t.Errorf("mean latency %v, without waiting %v", result.Latency.Mean(), result.Service.Mean())
			}
		}
	})
}

// stall is a script that answers nothing until the gate opens.
func stall(gate <-chan struct{}) script {
	return func(c net.Conn, ask func() bool) {
		for ask() {
			<-gate
			if _, err := c.Write([]byte(okResponse)); err != nil {
				return
			}
		}
	}
}

// What was due while a server stalled has waited for it, though only one request
// was under way on the connection: coordinated omission does not happen.
func TestStallIsNotForgiven(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open()
		srv := serve(t, stall(gate))
		const length = 200 * time.Millisecond
		config.Every = 10 * time.Millisecond
		config.Progress = func(p Progress) {
			if p.Elapsed >= length {
				open()
			}
		}
		config.Address, config.Connections, config.Requests, config.Rate = srv.addr, 1, 100, 1000
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{})
		// The requests were due in the first 100 ms, so that each waited for at
		// least as much.
		if n, least := result.Latency.TotalCount(), time.Duration(result.Latency.Min()); n != 100 || least < 99*time.Millisecond {
			t.Errorf("%d latencies from %v", n, least)
		}
		config.Rate = 0 // the same for a closed loop, which sends the others later
		if result := measure(t, config); result.Latency.TotalCount() != 100 {
			t.Errorf("%d latencies", result.Latency.TotalCount())
		}
	})
}

// A server that never answers again is not forgiven either.
func TestStallAtTheEnd(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		gate := make(chan struct{})
		defer close(gate)
		srv := serve(t, stall(gate))
		config.Every = 10 * time.Millisecond
		config.Progress = func(p Progress) {
			if p.Elapsed >= 100*time.Millisecond {
				cancel()
			}
		}
		config.Address, config.Connections, config.Threads, config.Duration, config.Rate = srv.addr, 2, 1, time.Hour, 1000
		result, err := Run(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		if result.Answered != 0 || result.Unanswered != 2 || result.Unsent < 90 || result.Latency.TotalCount() != 2+result.Unsent {
			t.Errorf("%d responses, %d unanswered, %d unsent, %d latencies", result.Answered, result.Unanswered, result.Unsent, result.Latency.TotalCount())
		}
		if longest := time.Duration(result.Latency.Max()); longest < 99*time.Millisecond {
			t.Errorf("latency up to %v", longest)
		}
	})
}

// Connections that the server closes while they are idle are no errors.
func TestIdleConnectionsEnd(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		srv := serve(t, answers(okResponse, okResponse))
		// So slow that the end is there before the next request.
		config.Address, config.Requests, config.Rate, config.Connections = srv.addr, 12, 100, 1
		result := measure(t, config)
		if result.Answered < 6 || result.Answered+result.Errors[Read]+result.Errors[Write] != 12 || srv.connections.Load() < 4 {
			t.Errorf("%d responses on %d connections, errors %v", result.Answered, srv.connections.Load(), result.Errors)
		}
	})
}

// The end does not wait for a request that is never sent.
func TestRateEndsWithTheLastRequest(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		srv := serve(t, answer(okResponse))
		config.Address, config.Requests, config.Rate = srv.addr, 1, 1.0/3600
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{})
		if result.Answered != 1 || result.Unsent != 0 {
			t.Errorf("%d responses, %d unsent", result.Answered, result.Unsent)
		}
		config.Requests, config.Connections, config.Threads, config.Rate = 3, 3, 3, 1000
		if result := measure(t, config); result.Answered != 3 {
			t.Errorf("%d responses", result.Answered)
		}
	})
}

// A server that ends connections at once is not asked again at once.
func TestServerThatRefusesIdleConnections(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		srv := serve(t, func(net.Conn, func() bool) {})
		config.Address, config.Duration, config.Rate, config.Connections = srv.addr, 100*time.Millisecond, 1, 4
		result := measure(t, config)
		// Pauses of 10, 20, 40 and 80 ms.
		if n := result.Connections; result.Answered != 0 || n < 4 || n > 4*5 {
			t.Errorf("%d responses on %d connections", result.Answered, n)
		}
	})
}
