package sluice

// ExpectContinue implements server.Request: it decides about a body that was announced with
// "Expect: 100-continue" (RFC 9110 section 10.1.1). A body that is not streamed is asked for
// at once. A streamed one is asked for when the handler reads it, or when the response
// begins with a stream that may read it; see askForBody. After another response, the client
// need not send it any more.
func (r *servedRequest) ExpectContinue(isWaiting bool) (isWanted bool, err error) {
	ctx := (*RequestCtx)(r)
	status := StatusContinue
	switch err = ctx.callBack(func(c *serverConfig) { status = c.expectStatus(ctx) }); {
	case err != nil:
		return false, err
	case status != StatusContinue:
		resp := &ctx.Response
		resp.SetStatusCode(status)
		if len(resp.bodyBytes()) == 0 && resp.streamed() == nil {
			resp.SetBodyString(StatusMessage(status))
		}
		return false, nil
	case isWaiting && !ctx.promiseContinue():
		return false, ErrConnectionClosed
	}
	return true, nil
}

// expectStatus returns what the user's callbacks decide.
func (c *serverConfig) expectStatus(ctx *RequestCtx) (status int) {
	switch {
	case c.expectHandler != nil:
		return c.expectHandler(ctx)
	case c.continueHandler != nil && !c.continueHandler(&ctx.Request.Header):
		return StatusExpectationFailed
	}
	return StatusContinue
}
