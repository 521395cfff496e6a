package sluice

// SendFile is ServeFile.
func (ctx *RequestCtx) SendFile(path string) { ServeFile(ctx, path) }

// SendFileBytes is ServeFileBytes.
func (ctx *RequestCtx) SendFileBytes(path []byte) { ServeFileBytes(ctx, path) }

// SendFileLiteral is ServeFileLiteral.
func (ctx *RequestCtx) SendFileLiteral(path string) { ServeFileLiteral(ctx, path) }
