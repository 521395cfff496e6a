package sluice

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// acceptedCodings is the Accept-Encoding of requests whose responses are decoded.
const acceptedCodings = "gzip, deflate, br, zstd"

// askForCodings makes req ask for an encoded response, if that is to be decoded.
func (c *HostClient) askForCodings(call *clientCall, req *Request, resp *Response) (asks bool) {
	h := &req.Header
	switch {
	case call.wants == wantsNone, resp.SkipBody,
		h.IsHead(), h.IsConnect(), h.has(HeaderAcceptEncoding), h.has(HeaderRange):
		return false
	}
	h.Set(HeaderAcceptEncoding, acceptedCodings)
	return true
}

// decode decodes the body, within limit if that is above 0. After an error r is as it was
// received.
func (r *Response) decode(limit int) error {
	status := r.StatusCode()
	if status == StatusPartialContent || status == StatusSwitchingProtocols || message.BodyForbidden(status) {
		return nil
	}
	codings, known := r.Header.codings()
	if !known || len(codings) == 0 || r.bodyLength() == 0 {
		return nil
	}
	limit = max(limit, 0)
	length := -1
	if r.streamed() != nil {
		stream := r.takeStream()
		r.leaveStream()
		r.setStream(body.NewDecoding(stream, codings, limit), length)
	} else {
		d := body.NewDecoding(&body.Memory{Left: r.bodyBytes()}, codings, limit)
		content, err := body.AppendStream(nil, d, 0)
		_ = d.Close()
		if err != nil {
			return err
		}
		r.SwapBody(content)
		length = len(content)
	}
	r.Header.m.Table.DelID(field.ContentEncoding)
	r.Header.SetContentLength(length)
	return nil
}

// codings returns the content codings in the order in which they were applied, without
// identity. known is false if one of them has no decoder, or if there are too many.
func (h *ResponseHeader) codings() (all []compress.Coding, known bool) {
	var room [2][]byte
	for _, list := range h.m.AppendLines(room[:0], field.ContentEncoding) {
		for name := range bytes.SplitSeq(list, []byte(",")) {
			c, isEncoded, err := contentCoding(name)
			if err != nil || len(all) == body.MaxCodings {
				return nil, false
			}
			if isEncoded {
				all = append(all, c)
			}
		}
	}
	return all, true
}
