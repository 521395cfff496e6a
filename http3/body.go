package http3

import (
	"io"
	"os"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/streams"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// serve answers the request. outlived: something else has the stream.
func (x *exchange) serve() (outlived bool) {
	isWanted := true
	if x.decides && x.failure == nil {
		var err error
		if isWanted, err = x.decide(); err != nil {
			return false
		}
	}
	if x.isStream {
		if start, timeout := x.request.ReadLimit(); timeout > 0 {
			x.SetReadDeadline(start, timeout)
		}
	} else if x.from == x.to {
		x.dropInput()
	}
	defer func() {
		if !outlived && x.isStream {
			x.request.EndReads()
		}
	}()
	switch {
	case x.failure != nil:
		x.answerFailure()
	case isWanted:
		return x.handle()
	}
	x.respond() // what the callbacks have made
	return false
}

// handle runs the handler and answers.
func (x *exchange) handle() (outlived bool) {
	switch o := x.runHandler(); o {
	case server.OutcomeAbort:
		x.reset(h3.InternalError)
		return false
	case server.OutcomeHijack, server.OutcomeSilent, server.OutcomeTakeover:
		if x.mayHijack(o) {
			return x.hijack(o)
		}
	case server.OutcomeBody:
		return x.giveOver()
	}
	x.respond()
	return false
}

// respond sends the response.
func (x *exchange) respond() (ok bool) {
	closes := x.responseHeader.ConnectionClose
	if ok = x.request.Respond(); !ok {
		x.reset(h3.InternalError)
	}
	if closes {
		x.conn.leave()
	}
	return ok
}

// decide runs the callbacks between head and body, and reads a body that is not streamed. It
// returns false if the body is refused, for which the response is ready. An error means that
// there is no client to answer.
func (x *exchange) decide() (isWanted bool, err error) {
	if x.failure = x.request.HeaderReceived(); x.failure != nil || x.bodyLength == 0 {
		return true, nil
	}
	x.isStream, x.failure = x.request.ExpectBody(x.bodyLength)
	if x.failure == nil && x.expects {
		isWanted, x.failure = x.request.ExpectContinue(true)
		if x.failure == nil && !isWanted {
			return false, nil
		}
	}
	switch {
	case x.failure == server.ErrConnectionClosed:
		return false, errReset
	case x.failure == nil && !x.isStream:
		return true, x.keepBody()
	}
	return true, nil
}

// keepBody reads the body into memory. An error means that there is no client to answer.
func (x *exchange) keepBody() error {
	room := buf.Get(int(min(max(x.bodyLength, inputSize), pieceSize)))
	defer room.Release()
	p := room.B[:cap(room.B)]
	for {
		x.setKeptDue()
		n, err := x.readBody(p, noWaitHook)
		if n > 0 {
			x.kept += n
			if x.failure = x.request.BodyReceived(p[:n], 0); x.failure != nil {
				return nil
			}
		}
		switch err {
		case nil:
		case io.EOF:
			x.bodyComplete()
			return nil
		case os.ErrDeadlineExceeded:
			x.failure = server.ErrTimeout
			return nil
		default:
			return err
		}
	}
}

func noWaitHook() error { return nil }

// setKeptDue says when the rest of a kept body is late.
func (x *exchange) setKeptDue() {
	if timeout := x.request.BodyTimeout(); timeout > 0 {
		x.keptDue = x.start + int64(timeout)
		return
	}
	x.keptDue = clock.Nanos() + int64(x.conn.serving.readTimeout)
}

// bodyComplete is called at the end of a body that is kept.
func (x *exchange) bodyComplete() {
	if x.trailer != nil {
		x.requestHeader.ReceiveTrailers(x.trailer)
	}
	if x.bodyLength < 0 {
		x.requestHeader.SettleChunked(x.kept)
	}
}

// ReadBody implements server.Exchange.
func (x *exchange) ReadBody(p []byte) (int, error) {
	n, err := x.stream.readBody(p, x.request.MayWait)
	switch err {
	case io.EOF:
		if x.trailer != nil {
			x.requestHeader.ReceiveTrailers(x.trailer)
		}
	case errReset:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// answerFailure makes the response to a request that does not reach the handler.
func (x *exchange) answerFailure() {
	streams.Refuse(x.request, x.failure)
	if x.conn.serving.cfg.LogsAll {
		x.conn.serving.attachment.Log(x.conn.net, x.failure)
	}
}

// SendFile implements server.Exchange.
func (x *exchange) SendFile(part engine.File) error {
	room := buf.Get(pieceSize)
	defer room.Release()
	return streams.SendFile(x, part, room.B[:pieceSize])
}
