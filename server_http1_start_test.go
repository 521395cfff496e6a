package sluice

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestStartOfPipelinedRequests: requests that were read together have one time. One
// that is not complete yet has its own, so that the handlers of those before it do not
// use up its ReadTimeout.
func TestStartOfPipelinedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		begun := time.Now()
		c := newSteadyConn(func(ctx *RequestCtx) {
			starts = append(starts, ctx.Time().Sub(begun))
			time.Sleep(time.Second)
			if string(ctx.Path()) == "/times-out" {
				ctx.TimeoutError("late")
			}
		}, false)
		late := "GET /times-out HTTP/1.1\r\nHost: h\r\n\r\n"
		for _, in := range []string{
			simpleGet + simpleGet,                                                  // 0, 0
			simpleGet,                                                              // 2
			simpleGet + "\r\n",                                                     // 3
			simpleGet,                                                              // 4
			simpleGet + smallPost[:len(smallPost)-3], smallPost[len(smallPost)-3:], // 5, 6
			late + simpleGet, // 7, 7
		} {
			c.roundTrip(t, []byte(in))
		}
		want := []time.Duration{0, 0, 2, 3, 4, 5, 6, 7, 7}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(starts, want) {
			t.Errorf("requests began at %v, want %v", starts, want)
		}
	})
}

// TestStartOfPipelinedStreams: a streamed body has its own start, too, because it is
// waited for.
func TestStartOfPipelinedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		begun := time.Now()
		c := &steadyConn{buffer: make([]byte, 0, 4<<10)}
		c.protocol = c.open(&Server{StreamRequestBody: true, Handler: func(ctx *RequestCtx) {
			starts = append(starts, ctx.Time().Sub(begun))
			ctx.PostBody()
			time.Sleep(time.Second)
		}})
		c.roundTrip(t, []byte(simpleGet+smallPost))
		if want := []time.Duration{0, time.Second}; !slices.Equal(starts, want) {
			t.Errorf("requests began at %v, want %v", starts, want)
		}
	})
}
