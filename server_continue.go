package sluice

// ExpectContinue implements server.Request: it decides about a body that was announced with
// "Expect: 100-continue" (RFC 9110 section 10.1.1). A body that is not streamed is asked for
// at once. A streamed one is asked for when the handler reads it, or when the response
// begins with a stream that may read it; see askForBody. After another response, the client
// need not send it any more.
func (r *servedRequest) ExpectContinue(isWaiting bool) (isWanted bool, err error) {
	ctx := (*RequestCtx)(r)
	status, err := ctx.expectStatus()
	switch {
	case err != nil:
		return false, err
	case status != StatusContinue:
		ctx.refuseBody(status)
		return false, nil
	case !isWaiting:
	case ctx.requestStream.exchange != nil:
		ctx.requestStream.awaitsContinue = true
	case !ctx.exchange.SendInterim(StatusContinue, nil):
		return false, ErrConnectionClosed
	}
	return true, nil
}

// expectStatus returns what the user's callbacks decide.
func (ctx *RequestCtx) expectStatus() (status int, err error) {
	defer ctx.recoverCallback(&err)
	switch {
	case ctx.cfg.expectHandler != nil:
		return ctx.cfg.expectHandler(ctx), nil
	case ctx.cfg.continueHandler != nil && !ctx.cfg.continueHandler(&ctx.Request.Header):
		return StatusExpectationFailed, nil
	}
	return StatusContinue, nil
}

// refuseBody makes the response to a request whose body was refused with status.
func (ctx *RequestCtx) refuseBody(status int) {
	resp := &ctx.Response
	resp.SetStatusCode(status)
	if len(resp.bodyBytes()) == 0 && resp.streamed() == nil {
		resp.SetBodyString(StatusMessage(status))
	}
}
