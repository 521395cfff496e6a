package proxy

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/sluicehttp/sluice"
)

// answer makes the upstream's response ctx's.
func (x *exchange) answer() error {
	ctx, length := x.ctx, x.resp.Header.ContentLength()
	if x.resp.StatusCode() < sluice.StatusOK {
		return errUnasked
	}
	if x.isUploading && x.ctx.ProtoMajor() == 1 {
		x.upload.settle(x.resp.StatusCode())
	}
	x.copyHead(&x.resp.Header)
	x.stick(x.pick.Member.Client)
	if hook := x.proxy.options.Response; hook != nil {
		if err := hook(ctx); err != nil {
			return hookError{err}
		}
		if ctx.Response.IsBodyStream() || len(ctx.Response.Body()) > 0 { // the hook has its own body
			return nil
		}
	}
	if !x.resp.IsBodyStream() { // it has arrived; or 204, 304, HEAD
		if content := x.resp.Body(); len(content) > 0 {
			ctx.Response.SetBody(content)
		}
		return nil
	}
	if isForwarded, err := x.forwardEvents(); isForwarded || err != nil {
		return err
	}
	if length >= 0 && length <= blockSize {
		isWhole, err := x.readAhead(length)
		if isWhole || err != nil {
			return err
		}
	}
	if length < 0 {
		announceTrailers(&x.resp.Header, &ctx.Response.Header)
		// The body may begin much later. Flush would send the head before middleware around
		// Handle has set its fields.
		ctx.Response.ImmediateHeaderFlush = true
	}
	if len(x.head) == 0 {
		x.releaseBlock() // a stream may take long
	}
	x.isStreaming = true
	ctx.SetBodyStream((*download)(x), max(length, -1)) // one up to the end of a connection is chunked
	return nil
}

// errUnasked is the error of a response that changes the protocol without being asked to.
var errUnasked = errors.New("sluice: the upstream has answered 101 to a request without Upgrade")

// copyHead gives ctx's response the status and the fields of h.
func (x *exchange) copyHead(h *sluice.ResponseHeader) {
	out := &x.ctx.Response.Header
	x.taker.ResponseHead(h).ForwardTo(x.answered)
	if h.StatusCode() == sluice.StatusUpgradeRequired { // RFC 9110 section 15.5.22: it says to which protocol
		if protocols := bytes.Join(h.PeekAll(sluice.HeaderUpgrade), []byte(", ")); len(protocols) > 0 {
			out.Set(sluice.HeaderConnection, "Upgrade")
			out.SetBytesV(sluice.HeaderUpgrade, protocols)
		}
	}
	x.addVia(h, out)
}

// addVia adds the proxy to Via of out, with which it forwards h.
func (x *exchange) addVia(h, out *sluice.ResponseHeader) {
	if x.proxy.options.Via != "" {
		out.Add("Via", x.via(string(h.Protocol())))
	}
}

// readAhead reads what has arrived of a short body. If that is all of it, it is in ctx's
// response; otherwise it is in x.head.
func (x *exchange) readAhead(length int) (isWhole bool, err error) {
	n := 0
	if length > 0 {
		n, err = x.resp.BodyStream().Read(x.takeBlock()[:length])
		if err != nil && (err != io.EOF || n < length) {
			return false, err // nothing was sent yet
		}
	}
	if n < length {
		x.head = x.block[:n]
		return false, nil
	}
	_ = x.resp.CloseBodyStream() // it has seen the end
	if n > 0 {
		x.ctx.Response.SetBody(x.block[:n])
	}
	return true, nil
}

// forwardInterim forwards an interim response (RFC 9110 section 15.2). It is Response.OnInterim.
func (x *exchange) forwardInterim(h *sluice.ResponseHeader) {
	var out sluice.ResponseHeader
	head := x.taker.ResponseHead(&out)
	x.taker.ResponseHead(h).ForwardTo(head)
	x.addVia(h, &out)
	_ = x.taker.SendInterim(head) // if the client is gone, the final response fails
}

// A download is the exchange as the body of a response that is forwarded while it arrives.
// The server closes it after its end, or when the client has disconnected.
type download exchange

// Read implements io.Reader. An error closes the connection to the client, so that it does
// not take the part for the whole.
func (d *download) Read(p []byte) (int, error) {
	if len(d.head) > 0 {
		n := copy(p, d.head)
		if d.head = d.head[n:]; len(d.head) == 0 {
			(*exchange)(d).releaseBlock()
		}
		return n, nil
	}
	n, err := d.resp.BodyStream().Read(p)
	switch {
	case err == io.EOF: // now the trailer fields have arrived
		forwardTrailers(&d.resp.Header, &d.ctx.Response.Header)
	case err != nil && (*exchange)(d).isEnded(): // by the client, which is no fault to log
		err = sluice.ErrAbortHandler
	}
	return n, err
}

// SupportsBodyWriteTo implements sluice.BodyWriterTo: a body without a length may pause for
// long.
func (d *download) SupportsBodyWriteTo() bool { return d.resp.Header.ContentLength() < 0 }

// WriteTo implements io.WriterTo.
func (d *download) WriteTo(w io.Writer) (int64, error) { return copyLean(w, d) }

// Close implements io.Closer. It cancels the request if it is still running.
func (d *download) Close() error {
	x := (*exchange)(d)
	err := x.resp.CloseBodyStream()
	x.release()
	return err
}

var (
	_ io.Closer           = (*download)(nil)
	_ sluice.BodyWriterTo = (*download)(nil)
)

// upgradeOf returns the protocol to which a request asks to change (RFC 9110 section 7.8);
// "": to none.
func upgradeOf(h *sluice.RequestHeader) string {
	if !h.ConnectionUpgrade() || !h.IsHTTP11() {
		return ""
	}
	protocols := string(bytes.Join(h.PeekAll(sluice.HeaderUpgrade), []byte(", ")))
	for name := range strings.SplitSeq(protocols, ",") {
		// Another version of HTTP in a tunnel would bring requests that this proxy has not checked.
		name, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(name)), "/")
		if name == "h2c" || name == "h2" || name == "http" {
			return ""
		}
	}
	return protocols
}
