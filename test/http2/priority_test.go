package http2_test

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
	"golang.org/x/net/http2"
)

// TestPriorityOfResponse: the field of a response is merged with that of its request (RFC 9218
// section 8). Two large responses wait for the connection's window; the second one has the field.
func TestPriorityOfResponse(t *testing.T) {
	for _, row := range []struct {
		name, request, response string
		isFirst                 bool // the second response
	}{
		{"none", "u=3", "", false},
		{"urgent", "u=7", "u=0", true},
		{"merged", "u=0", "i", true},
		{"background", "u=0", "u=7", false},
	} {
		f := harness.ServeHTTP2(t, harness.InMemory(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if row.response != "" && string(ctx.Path()) == "/second" {
				ctx.Response.Header.Set("Priority", row.response)
			}
			ctx.SetBodyString(bulk)
		}}).Frames()
		f.Must(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}))
		f.Head(1, "GET", "/first", true, "priority", "u=3")
		left := map[uint32]int{1: len(bulk), 3: len(bulk)}
		take := func() (ended uint32) {
			switch frame := f.Next().(type) {
			case *http2.DataFrame:
				left[frame.StreamID] -= len(frame.Data())
				if frame.StreamEnded() {
					return frame.StreamID
				}
			case *http2.MetaHeadersFrame:
			default:
				t.Fatalf("%s: %v", row.name, frame)
			}
			return 0
		}
		for left[1] > len(bulk)-65535 { // the window is used up
			take()
		}
		f.Head(3, "GET", "/second", true, "priority", row.request)
		take() // its head
		f.Must(f.WriteWindowUpdate(0, 1<<20))
		ended := uint32(0)
		for ended == 0 {
			ended = take()
		}
		if (ended == 3) != row.isFirst || left[ended] != 0 {
			t.Errorf("%s: stream %d ends first, %v bytes are left", row.name, ended, left)
		}
	}
}

// TestPriorityOfSmallResponse: the field is only sent.
func TestPriorityOfSmallResponse(t *testing.T) {
	f := harness.ServeHTTP2(t, harness.InMemory(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.Response.Header.Set("Priority", "u=1")
		ctx.SetBodyString("small")
	}}).Frames()
	f.Head(1, "GET", "/", true)
	if got := f.Fields(); !strings.Contains(got, "priority=u=1") {
		t.Error(got)
	}
}
