package h3

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// patience is how long an answer may take.
const patience = 10 * time.Second

// Types of unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2).
const (
	controlStream = 0x0
	pushStream    = 0x1
	encoderStream = 0x2
	decoderStream = 0x3
)

// A wire is a client that sends any bytes on any stream.
type wire struct {
	t       testing.TB
	conn    *quic.Conn
	control *quic.SendStream // of dial

	mu     sync.Mutex
	server map[uint64]*quic.ReceiveStream // the server's streams by their type
	came   chan struct{}                  // closed and made again with each of them
}

// dialBare connects, and sends nothing.
func dialBare(t testing.TB, addr string) *wire {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := quic.DialAddr(ctx, addr, clientTLS(), &quic.Config{MaxIncomingUniStreams: 100, MaxIdleTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, conn: conn, server: make(map[uint64]*quic.ReceiveStream), came: make(chan struct{})}
	t.Cleanup(func() { _ = conn.CloseWithError(quic.ApplicationErrorCode(h3.NoError), "") })
	go w.acceptAll()
	return w
}

func clientTLS() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}, ServerName: "localhost"}
}

// dial connects, and opens the streams that each client has.
func dial(t testing.TB, addr string) *wire {
	t.Helper()
	w := dialBare(t, addr)
	w.control = w.uni(controlStream, frame(h3.FrameSettings))
	return w
}

func (w *wire) acceptAll() {
	for {
		s, err := w.conn.AcceptUniStream(context.Background())
		if err != nil {
			return
		}
		kind, err := quicvarint.Read(quicvarint.NewReader(s))
		if err != nil {
			continue
		}
		w.mu.Lock()
		w.server[kind] = s
		close(w.came)
		w.came = make(chan struct{})
		w.mu.Unlock()
	}
}

// ofServer waits for the server's stream of a type.
func (w *wire) ofServer(kind uint64) *quic.ReceiveStream {
	w.t.Helper()
	for end := time.After(patience); ; {
		w.mu.Lock()
		s, came := w.server[kind], w.came
		w.mu.Unlock()
		if s != nil {
			return s
		}
		select {
		case <-came:
		case <-end:
			w.t.Fatalf("the server has opened no stream of type %d", kind)
		}
	}
}

// settings returns the settings that the server has sent, in the order of the wire.
func (w *wire) settings() (ids, values []uint64) {
	w.t.Helper()
	r := quicvarint.NewReader(w.ofServer(controlStream))
	kind, err1 := quicvarint.Read(r)
	length, err2 := quicvarint.Read(r)
	payload := make([]byte, length)
	_, err3 := io.ReadFull(r, payload)
	if err := errors.Join(err1, err2, err3); err != nil || kind != uint64(h3.FrameSettings) {
		w.t.Fatalf("the first frame is %d, %v", kind, err)
	}
	for in := bytes.NewReader(payload); in.Len() > 0; {
		id, err1 := quicvarint.Read(in)
		value, err2 := quicvarint.Read(in)
		if err := errors.Join(err1, err2); err != nil {
			w.t.Fatal(err)
		}
		ids, values = append(ids, id), append(values, value)
	}
	return ids, values
}

// uni opens a unidirectional stream and sends its type and what follows.
func (w *wire) uni(kind uint64, pieces ...[]byte) *quic.SendStream {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := w.conn.OpenUniStreamSync(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	_, _ = s.Write(join(varint(kind), join(pieces...))) // the server may have closed the connection
	return s
}

// open opens a stream of a request, and sends pieces.
func (w *wire) open(pieces ...[]byte) *quic.Stream {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := w.conn.OpenStreamSync(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	_, _ = s.Write(join(pieces...))
	return s
}

// ask opens a stream of a request, sends pieces and ends it.
func (w *wire) ask(pieces ...[]byte) *quic.Stream {
	w.t.Helper()
	s := w.open(pieces...)
	_ = s.Close()
	return s
}

// An answer is what came on the stream of a request.
type answer struct {
	interim         []int
	status          int // 0: there is none
	fields, trailer []qpack.HeaderField
	body            []byte
	err             error // other than the end of the stream
}

// reset returns the error code of the stream.
func (a *answer) reset() (code h3.Code, isReset bool) {
	var e *quic.StreamError
	if errors.As(a.err, &e) && e.Remote {
		return h3.Code(e.ErrorCode), true
	}
	return 0, false
}

// get returns the value of a field.
func get(fields []qpack.HeaderField, name string) string {
	for _, f := range fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// read reads an answer up to its end.
func read(s *quic.Stream) (a answer) {
	_ = s.SetReadDeadline(time.Now().Add(patience))
	in, err := io.ReadAll(s)
	a.err = err
	for len(in) > 0 {
		kind, n, err1 := quicvarint.Parse(in)
		length, m, err2 := quicvarint.Parse(in[n:])
		if err1 != nil || err2 != nil || uint64(len(in)-n-m) < length {
			a.err = errors.Join(a.err, io.ErrUnexpectedEOF)
			return a
		}
		payload := in[n+m : n+m+int(length)]
		in = in[n+m+int(length):]
		switch h3.FrameType(kind) {
		case h3.FrameData:
			a.body = append(a.body, payload...)
		case h3.FrameHeaders:
			if err := a.add(payload); err != nil {
				a.err = errors.Join(a.err, err)
				return a
			}
		}
	}
	return a
}

// add adds a field section.
func (a *answer) add(section []byte) error {
	var fields []qpack.HeaderField
	for next := qpack.NewDecoder().Decode(section); ; {
		f, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		fields = append(fields, f)
	}
	if a.status != 0 {
		a.trailer = fields
		return nil
	}
	status, err := strconv.Atoi(get(fields, ":status"))
	switch {
	case err != nil:
		return err
	case status < 200:
		a.interim = append(a.interim, status)
	default:
		a.status, a.fields = status, fields
	}
	return nil
}

// closed waits until the server closes the connection, and returns its code.
func (w *wire) closed() (code h3.Code, err error) {
	select {
	case <-w.conn.Context().Done():
	case <-time.After(patience):
		return 0, errors.New("the connection was not closed")
	}
	err = context.Cause(w.conn.Context())
	var e *quic.ApplicationError
	if errors.As(err, &e) && e.Remote {
		return h3.Code(e.ErrorCode), nil
	}
	return 0, err
}

// join returns pieces in one slice.
func join(pieces ...[]byte) []byte { return bytes.Join(pieces, nil) }

func varint(n uint64) []byte { return quicvarint.Append(nil, n) }

// frame returns a frame.
func frame(kind h3.FrameType, payload ...[]byte) []byte {
	all := join(payload...)
	return join(varint(uint64(kind)), varint(uint64(len(all))), all)
}

// section returns a field section with names and values in turn, all of them literal, and
// without Huffman codes.
func section(fields ...string) []byte {
	b := []byte{0, 0}
	for i, text := range fields {
		first, full := byte(0x20), 7 // RFC 9204 section 4.5.6
		if i%2 == 1 {
			first, full = 0, 0x7f
		}
		n := len(text)
		if n < full {
			b = append(b, first|byte(n))
		} else {
			b = append(b, first|byte(full))
			for n -= full; n >= 0x80; n >>= 7 {
				b = append(b, byte(n)|0x80)
			}
			b = append(b, byte(n))
		}
		b = append(b, text...)
	}
	return b
}

// headers returns HEADERS with fields.
func headers(fields ...string) []byte { return frame(h3.FrameHeaders, section(fields...)) }

// request returns HEADERS of a request, with more fields after the pseudo-fields.
func request(method, path string, fields ...string) []byte {
	return headers(append([]string{":method", method, ":scheme", "https", ":authority", "localhost", ":path", path}, fields...)...)
}

// data returns DATA.
func data(text string) []byte { return frame(h3.FrameData, []byte(text)) }
