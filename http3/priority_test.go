package http3

import (
	"io"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	wire "github.com/sluicehttp/sluice/internal/wire/h3"
)

// An urgent answer overtakes a download that began before; without priorities, downloads share.
func TestPriorities(t *testing.T) {
	large := strings.Repeat("x", 4<<20)
	v, addr := serveHTTP3(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) != "/small" {
			ctx.SetBodyString(large)
		}
		if own := ctx.QueryArgs().Peek("own"); len(own) > 0 {
			ctx.Response.Header.SetBytesV("Priority", own)
		}
	}}, Config{})
	for _, row := range []struct {
		name    string
		fields  []string
		update  []byte
		own     string // of the second answer
		isFirst bool   // the second answer
	}{
		{"urgent", []string{"priority", "u=0"}, nil, "", true},
		{"background", []string{"priority", "u=7"}, nil, "", false},
		{"update", nil, []byte("u=0"), "", true},
		{"update after a rest", nil, []byte("u=0"), "", true},
		{"update over field", []string{"priority", "u=7"}, []byte("u=0"), "", true},
		{"the answer's own", []string{"priority", "u=7"}, nil, "u=0", true},
		{"the answer's own is merged", []string{"priority", "u=0"}, nil, "i", true},
		{"the answer's own, background", nil, nil, "u=7", false},
	} {
		c := dialRaw(t, addr)
		update := func() {
			c.control.Write(frame(wire.FramePriorityUpdate, append(wire.AppendVarint(nil, 8), row.update...)))
		}
		rests := row.name == "update after a rest"
		if row.update != nil && !rests {
			update()
		}
		c.exchange(get("/small"))
		if rests {
			awaitRest(t, v)
			update()
		}
		first := c.open(get("/"))
		second := c.open(get("/?own="+row.own, row.fields...))
		first.Close()
		second.Close()
		ended := make(chan int, 2)
		for i, s := range []*quic.Stream{first, second} {
			go func() {
				io.Copy(io.Discard, s)
				ended <- i
			}()
		}
		if got := <-ended; (got == 1) != row.isFirst {
			t.Errorf("%s: answer %d ends first", row.name, got)
		}
		<-ended
		c.CloseWithError(0x100, "")
	}
}
