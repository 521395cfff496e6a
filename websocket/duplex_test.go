package websocket

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// A duet is two loops that write until both wait for room, and only then read, too.
type duet struct {
	begins bool // each first has one message of the other
	stuck  sync.WaitGroup
}

func (d *duet) play(c *Conn) error {
	ctx := context.Background()
	if d.begins {
		if err := c.Write(ctx, Text, []byte("first")); err != nil {
			return err
		}
		if _, err := c.Read(ctx); err != nil {
			return err
		}
	}
	part := make([]byte, 60<<10)
	for err := error(nil); err == nil; {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		err = c.Write(short, Binary, part)
		cancel()
		if err != nil && short.Err() == nil {
			return err
		}
	}
	d.stuck.Done()
	d.stuck.Wait()
	wrote := make(chan error, 1)
	go func() {
		for range 20 {
			if err := c.Write(ctx, Binary, part); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- c.Write(ctx, Text, []byte("end"))
	}()
	for {
		m, err := c.Read(ctx)
		switch {
		case err != nil:
			return err
		case m.Kind == Text:
			return <-wrote
		case len(m.Data) != len(part):
			return fmt.Errorf("a message of %d bytes", len(m.Data))
		}
	}
}

// TestBothWrite: two loops that wait for room, each for the other to read, go on when both
// are in Read.
func TestBothWrite(t *testing.T) {
	for _, scheme := range []string{"ws", "wss"} {
		for _, begins := range []bool{false, true} {
			t.Run(fmt.Sprint(scheme, " ", begins), func(t *testing.T) {
				onEngines(t, func(t *testing.T, engine sluice.Engine) {
					served := make(chan error, 1)
					d := duet{begins: begins}
					d.stuck.Add(2)
					serve := func(c *Conn) error {
						err := d.play(c)
						served <- err
						for err == nil { // until the peer has closed
							_, err = c.Read(context.Background())
						}
						return err
					}
					e := &Endpoint{}
					handler := func(ctx *sluice.RequestCtx) { _ = e.Accept(ctx, serve) }
					addr := ""
					if scheme == "ws" {
						addr = start(t, engine, handler).addr
					} else {
						addr = secureEcho(t, e, func(s *sluice.Server) { s.Engine, s.Handler = engine, handler })
					}
					c, err := Dial(t.Context(), scheme+"://"+addr, &DialOptions{TLSConfig: &tls.Config{InsecureSkipVerify: true}})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close(CodeNormal, "")
					if err := d.play(c); err != nil {
						t.Error("the client:", err)
					}
					if err := <-served; err != nil {
						t.Error("the server:", err)
					}
				})
			})
		}
	}
}
