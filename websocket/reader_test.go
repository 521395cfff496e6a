package websocket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// readParts is a loop that answers each message with its kind and what Reader has given of
// it. "short" and what follows is read with Read.
func readParts(c *Conn) error {
	for {
		k, r, err := c.Reader(context.Background())
		if err != nil {
			return err
		}
		p, err := io.ReadAll(r)
		if err != nil {
			return errors.Join(err, c.TryWrite(Text, []byte("not all")))
		}
		if err := c.Write(context.Background(), k, p); err != nil {
			return err
		}
		if string(p) != "short" {
			continue
		}
		m, err := c.Read(context.Background())
		if err != nil {
			return err
		}
		if err := c.Write(context.Background(), m.Kind, m.Data); err != nil {
			return err
		}
	}
}

// TestReader: messages of any length and number of fragments, with control frames between
// them, and after them one for Read, which has its limit again.
func TestReader(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		f := accepting(t, engine, &Endpoint{ReadLimit: 1000, MaxPending: 1 << 20}, readParts)
		c := f.dial(masked(ws.OpText, "early") + masked(ws.OpBinary, ""))
		c.expect("text early", "binary")
		c.raw(masked(ws.OpText, longText))
		c.expect(long("text", longText))
		var many strings.Builder
		many.WriteString(part(ws.OpText, ""))
		for range 3000 {
			many.WriteString(part(ws.OpContinuation, "κ"))
		}
		c.raw(many.String() + masked(ws.OpPing, "p") + masked(ws.OpContinuation, "end"))
		c.expect("pong p", long("text", strings.Repeat("κ", 3000)+"end"))
		c.raw(masked(ws.OpText, "short") + masked(ws.OpBinary, "for Read") + masked(ws.OpText, "short"))
		c.expect("text short", "binary for Read", "text short")
		c.raw(masked(ws.OpText, longText))
		c.expect("close 1009 a message exceeds the limit")
	})
}

// TestReaderFails: what ends a message before its end is an error of its reader.
func TestReaderFails(t *testing.T) {
	for name, test := range map[string]struct{ in, want string }{
		"not UTF-8":   {part(ws.OpText, "begin") + masked(ws.OpContinuation, "\xff"), "close 1007"},
		"interleaved": {part(ws.OpText, "begin") + masked(ws.OpText, "next"), "close 1002"},
		"reserved":    {part(ws.OpText, "begin") + deflated(masked(ws.OpContinuation, "")), "close 1002"},
		"late":        {part(ws.OpText, "begin"), "close 1008 a message took too long"},
		"Close":       {part(ws.OpText, "begin") + closing(1001, ""), "close 1001"},
		"end":         {part(ws.OpText, "begin"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEngines(t, func(t *testing.T, engine sluice.Engine) {
				got := make(chan error, 1)
				e := &Endpoint{}
				if name == "late" {
					e.MessageWithin = 100 * time.Millisecond
				}
				f := accepting(t, engine, e, func(c *Conn) error {
					_, r, err := c.Reader(t.Context())
					if err != nil {
						return err
					}
					p := make([]byte, 3)
					_, err = io.ReadFull(r, p)
					if err == nil && string(p) == "beg" {
						_, err = io.Copy(io.Discard, r)
					}
					got <- err
					return nil
				})
				c := f.dial(test.in)
				if test.want == "" {
					c.Close()
				} else if frame := c.next(); !strings.HasPrefix(frame, test.want) {
					t.Errorf("got %q, want %q", frame, test.want)
				}
				if err := <-got; err == nil || err == io.EOF {
					t.Errorf("the reader has returned %v", err)
				}
			})
		})
	}
}

// TestReaderIsLeft: the next call skips the rest of a message, and its reader is of no
// use any more; a context that ends loses nothing else.
func TestReaderIsLeft(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		f := accepting(t, engine, &Endpoint{}, func(c *Conn) error {
			ended, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, left, err := c.Reader(ended)
			if err != nil {
				return err
			}
			p := make([]byte, 10)
			if _, err := io.ReadFull(left, p); err != nil {
				return err
			}
			if err := c.Write(t.Context(), Text, p); err != nil {
				return err
			}
			cancel()
			if n, err := io.Copy(io.Discard, left); err != context.Canceled {
				t.Errorf("%d bytes, %v", n, err)
			}
			if _, _, err := c.Reader(ended); err != context.Canceled {
				t.Error(err)
			}
			m, err := c.Read(t.Context())
			if err != nil || string(m.Data) != "next" {
				t.Errorf("%q, %v", m.Data, err)
			}
			if n, err := left.Read(p); n != 0 || err == nil || err == io.EOF {
				t.Errorf("the reader that was left returns %d, %v", n, err)
			}
			_, other, err := c.Reader(t.Context())
			if err != nil {
				return err
			}
			_, last, err := c.Reader(t.Context())
			if err != nil {
				return err
			}
			if n, err := other.Read(p); n != 0 || err != errLeft {
				t.Errorf("%d, %v", n, err)
			}
			if n, err := last.Read(nil); n != 0 || err != nil {
				t.Errorf("a read of nothing: %d, %v", n, err)
			}
			rest, err := io.ReadAll(last)
			if n, again := last.Read(p); n != 0 || again != io.EOF {
				t.Errorf("after the end: %d, %v", n, again)
			}
			return errors.Join(err, c.Write(t.Context(), Text, rest))
		})
		c := f.dial(part(ws.OpText, longText))
		c.expect("text " + longText[:10])
		c.raw(masked(ws.OpContinuation, longText) + masked(ws.OpText, "next") + masked(ws.OpText, longText) + masked(ws.OpText, "last"))
		c.expect("text last", "close 1000")
	})
}

// TestReaderCompressed: a compressed message comes whole, and has its limit.
func TestReaderCompressed(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		f := accepting(t, engine, &Endpoint{Compression: CompressionShared, ReadLimit: 100_000, MaxPending: 1 << 20}, readParts)
		c := f.dialDeflate("permessage-deflate", deflateShared)
		var d deflater
		c.raw(d.frame(ws.OpText, longText))
		if got, _ := d.next(c); got != longText {
			t.Errorf("got %d bytes", len(got))
		}
		plain := allBytes(200_000)
		c.raw(masked(ws.OpBinary, plain))
		if got, _ := d.next(c); got != plain {
			t.Errorf("got %d bytes", len(got))
		}
		c.raw(d.frame(ws.OpText, longText+longText))
		for {
			if got := c.next(); strings.HasPrefix(got, "close 1009") {
				break
			} else if strings.HasPrefix(got, "error") || got == "end" {
				t.Fatal(got)
			}
		}
	})
}

// TestReaderWithoutLoop: connections with callbacks have none.
func TestReaderWithoutLoop(t *testing.T) {
	got := make(chan error, 1)
	f := startEndpoint(t, sluice.EngineAuto, &Endpoint{OnMessage: func(c *Conn, _ Message) error {
		_, _, err := c.Reader(t.Context())
		got <- err
		return nil
	}})
	f.dial(masked(ws.OpText, "x"))
	if err := <-got; err != ErrNoLoop {
		t.Error(err)
	}
}

// TestReaderAndWriter: a message of some MiB goes from a Writer of Dial to a server, over
// HTTP/2, too, and back. What waits at the server is bounded.
func TestReaderAndWriter(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		f := accepting(t, engine, &Endpoint{}, func(c *Conn) error {
			k, r, err := c.Reader(t.Context())
			if err != nil {
				return err
			}
			w, err := c.Writer(t.Context(), k)
			if err != nil {
				return err
			}
			all, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			for part := range slices.Chunk(all, 40<<10) {
				if _, err := w.Write(part); err != nil {
					return err
				}
				if waiting := c.Pending(); waiting > 64<<10+maxFragment+flushSize {
					t.Errorf("%d bytes wait", waiting)
				}
			}
			return w.Close()
		})
		for _, o := range []*DialOptions{nil, {Client: &sluice.Client{HTTP2: sluice.HTTP2Only}}} {
			stream(t, f.dialTo(o))
			if o != nil {
				noStreams(t, o.Client)
			}
		}
	})
}

// stream sends a long message and gets it back.
func stream(t *testing.T, c *Conn) {
	count := 64
	if testing.Short() {
		count = 16
	}
	payload := bytes.Repeat([]byte(allBytes(1<<16)), count)
	sent := make(chan error, 1)
	go func() {
		w, err := c.Writer(t.Context(), Binary)
		if err == nil {
			_, err = w.Write(payload)
			err = errors.Join(err, w.Close())
		}
		sent <- err
	}()
	k, r, err := c.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || k != Binary || !bytes.Equal(got, payload) {
		t.Errorf("got %d bytes of kind %v, %v", len(got), k, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if _, err := c.Read(t.Context()); CloseCode(err) != CodeNormal {
		t.Error(err)
	}
}
