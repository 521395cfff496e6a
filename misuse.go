package sluice

// A misuse is what a handler does with a request that loses something, and of which no error
// can tell. Each Server logs each kind once.
type misuse uint8

const (
	misuseReadsBody misuse = iota
	misuseHead
	misuseBody
	misuseReplaced
	misuseHijack
	misuses // how many there are
)

var misuseTexts = [misuses]string{
	misuseReadsBody: "reads a streamed body by Request.Body, which keeps all of it in memory: use BodyStream",
	misuseHead:      "has changed the status or a field after Flush, which the client does not see: set them before",
	misuseBody:      "has set a body although the connection was given away, as by Upgrade, Serve or HijackSetNoResponse: the body is not sent",
	misuseReplaced:  "has replaced the response after the connection was given to another protocol, as by Upgrade or Serve: the client gets that response, and the protocol does not begin",
	misuseHijack:    "has called Hijack after the connection was given away, as by Upgrade or Serve: that has no effect",
}

// warn logs m, once for each Server.
func (ctx *RequestCtx) warn(m misuse) {
	if ctx.server.gauges.hasWarned[m].CompareAndSwap(false, true) {
		ctx.cfg.logger.Printf("a handler %s (this is logged once)", misuseTexts[m])
	}
}
