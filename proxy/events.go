package proxy

import (
	"bytes"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// An eventBody is the chunked body of a response of server-sent events on its way to the
// client. Such a body mostly waits: it is forwarded by a splice, without the exchange. What
// goes out is framed from what was parsed.
type eventBody struct {
	chunks h1.Chunked
	isRaw  bool // the client speaks HTTP/1.0, and gets it without chunks
}

// maxReframing is how much longer the result of append can be than what came.
const maxReframing = 32

// append appends the data of in, which was received, as the client gets it. isOver reports
// whether the body has ended; a trailer section is dropped.
func (e *eventBody) append(dst, in []byte) (out []byte, isOver bool, err error) {
	var small [32]byte
	head, begin := h1.AppendChunkHead(small[:0], max(len(in), 1)), len(dst)
	if !e.isRaw {
		dst = append(dst, head...) // the room of the chunk's head
	}
	data := len(dst)
	for len(in) > 0 && !e.chunks.Done() {
		used, piece, err := e.chunks.Next(in)
		if err != nil {
			return dst[:begin], false, err
		}
		dst, in = append(dst, piece...), in[used:]
	}
	isOver = e.chunks.Done()
	if e.isRaw {
		return dst, isOver, nil
	}
	if n := len(dst) - data; n == 0 {
		dst = dst[:begin]
	} else {
		// Data is shorter than in, and its length may have fewer digits.
		head = h1.AppendChunkHead(small[:0], n)
		copy(dst[begin:], head)
		moved := copy(dst[begin+len(head):], dst[data:])
		dst = append(dst[:begin+len(head)+moved], "\r\n"...)
	}
	if isOver {
		dst = append(dst, h1.LastChunk+"\r\n"...)
	}
	return dst, isOver, nil
}

// forwardEvents has a splice forward the response's body, if that may be events and both
// connections allow it.
func (x *exchange) forwardEvents() (ok bool, err error) {
	h, stream := &x.resp.Header, x.resp.BodyStream()
	kind, _, _ := bytes.Cut(h.ContentType(), []byte(";"))
	if !bytes.EqualFold(bytes.TrimSpace(kind), []byte("text/event-stream")) || h.ContentLength() != -1 {
		return false, nil
	}
	s, isStream := stream.(*body.Stream)
	if !isStream || x.ctx.ProtoMajor() > 1 || x.isUploading || x.ctx.Response.StatusCode() != sluice.StatusOK {
		return false, nil
	}
	if upgrade.TakeOver(x.ctx, upgrade.Takeover{NeedsTarget: true, WritesBody: true}) != nil {
		return false, nil
	}
	conn, rest, ok := s.Detach(isSocket)
	if !ok {
		return false, nil
	}
	u := x.pick.Member.Client
	o := opening{upstream: u, conn: conn, rest: rest, events: &eventBody{isRaw: !x.ctx.Request.Header.IsHTTP11()}}
	if err := x.takeOver(o); err != nil {
		conn.Close()
		return false, err
	}
	x.isBusy = false // until the end of the body
	upgrade.OnHijackDropped(x.ctx, func() {
		conn.Close()
		u.ended.Add(1)
	})
	return true, nil
}
