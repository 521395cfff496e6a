package sluice

import (
	"bytes"
	"io"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framePeer is a server of HTTP/2 that a script plays frame by frame.
type framePeer struct {
	*http2.Framer
	conn   *peerConn
	block  bytes.Buffer
	heads  *hpack.Encoder
	number int
	paths  map[uint32]string // of the requests
}

// newFramePeer runs script on each connection, after SETTINGS.
func newFramePeer(t testing.TB, script func(p *framePeer), settings ...http2.Setting) *clientPeer {
	return newClientPeer(t, func(c *peerConn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c.br, preface); err != nil {
			return
		}
		p := &framePeer{Framer: http2.NewFramer(c, c.br), conn: c, number: c.number, paths: map[uint32]string{}}
		p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		p.heads = hpack.NewEncoder(&p.block)
		_ = p.WriteSettings(settings...)
		script(p)
	})
}

// next returns the next frame, nil at the end of the connection. It acknowledges SETTINGS
// and PING itself.
func (p *framePeer) next() http2.Frame {
	for {
		frame, err := p.ReadFrame()
		if err != nil {
			return nil
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = p.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = p.WritePing(true, frame.Data)
			}
		default:
			return frame
		}
	}
}

// head waits for the head of a request, and returns its stream; 0 at the end of the
// connection.
func (p *framePeer) head() (stream uint32) {
	for frame := p.next(); frame != nil; frame = p.next() {
		if head, ok := frame.(*http2.MetaHeadersFrame); ok {
			return head.StreamID
		}
	}
	return 0
}

// request waits for the end of a request, and returns its stream and path; 0 at the end
// of the connection.
func (p *framePeer) request() (stream uint32, path string) {
	for frame := p.next(); frame != nil; frame = p.next() {
		isLast := false
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			p.paths[frame.StreamID] = frame.PseudoValue("path")
			isLast = frame.StreamEnded()
		case *http2.DataFrame:
			isLast = frame.StreamEnded()
		}
		if isLast {
			id := frame.Header().StreamID
			return id, p.paths[id]
		}
	}
	return 0, ""
}

// answer sends a response.
func (p *framePeer) answer(stream uint32, status, body string) {
	p.block.Reset()
	_ = p.heads.WriteField(hpack.HeaderField{Name: ":status", Value: status})
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.block.Bytes(), EndHeaders: true, EndStream: body == ""})
	if body != "" {
		_ = p.WriteData(stream, true, []byte(body))
	}
}
