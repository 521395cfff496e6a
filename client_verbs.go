package sluice

import (
	"context"
	"errors"
	"time"
)

// defaultClient is that of the package-level functions.
var defaultClient Client

// Do sends req and reads the response into resp, with a Client that all
// package-level functions share. See Client.Do.
func Do(req *Request, resp *Response) error { return defaultClient.Do(req, resp) }

// DoTimeout is Do with a bound; see Client.DoTimeout.
func DoTimeout(req *Request, resp *Response, timeout time.Duration) error {
	return defaultClient.DoTimeout(req, resp, timeout)
}

// DoDeadline is Do with a bound; see Client.DoDeadline.
func DoDeadline(req *Request, resp *Response, deadline time.Time) error {
	return defaultClient.DoDeadline(req, resp, deadline)
}

// DoContext is Do that ends with ctx; see Client.DoContext.
func DoContext(ctx context.Context, req *Request, resp *Response) error {
	return defaultClient.DoContext(ctx, req, resp)
}

// DoRedirects is Do that follows redirects; see Client.DoRedirects.
func DoRedirects(req *Request, resp *Response, maxRedirectsCount int) error {
	return defaultClient.DoRedirects(req, resp, maxRedirectsCount)
}

// Get requests url; see Client.Get.
func Get(dst []byte, url string) (statusCode int, body []byte, err error) {
	return defaultClient.Get(dst, url)
}

// GetTimeout is Get with a bound; see Client.GetTimeout.
func GetTimeout(dst []byte, url string, timeout time.Duration) (statusCode int, body []byte, err error) {
	return defaultClient.GetTimeout(dst, url, timeout)
}

// GetDeadline is Get with a bound; see Client.GetDeadline.
func GetDeadline(dst []byte, url string, deadline time.Time) (statusCode int, body []byte, err error) {
	return defaultClient.GetDeadline(dst, url, deadline)
}

// GetContext is Get that ends with ctx; see Client.GetContext.
func GetContext(ctx context.Context, dst []byte, url string) (statusCode int, body []byte, err error) {
	return defaultClient.GetContext(ctx, dst, url)
}

// Post sends a form to url; see Client.Post.
func Post(dst []byte, url string, postArgs *Args) (statusCode int, body []byte, err error) {
	return defaultClient.Post(dst, url, postArgs)
}

// PostContext is Post that ends with ctx; see Client.PostContext.
func PostContext(ctx context.Context, dst []byte, url string, postArgs *Args) (statusCode int, body []byte, err error) {
	return defaultClient.PostContext(ctx, dst, url, postArgs)
}

// Get requests url, follows up to 16 redirects, and returns status and body of
// the last response. The body is appended to dst[:0], whose memory it uses if it
// fits. With an error, the status is 0, and the body what had come of it; after
// ErrTimeout it is dst.
func (c *Client) Get(dst []byte, url string) (statusCode int, body []byte, err error) {
	return clientGet(c, dst, url)
}

// GetTimeout is Get with a bound for all of it: ErrTimeout.
func (c *Client) GetTimeout(dst []byte, url string, timeout time.Duration) (statusCode int, body []byte, err error) {
	return c.GetDeadline(dst, url, time.Now().Add(timeout))
}

// GetDeadline is Get with a bound for all of it: ErrTimeout.
func (c *Client) GetDeadline(dst []byte, url string, deadline time.Time) (statusCode int, body []byte, err error) {
	return clientGetDeadline(c, dst, url, deadline)
}

// GetContext is Get that ends when ctx does; see DoContext.
func (c *Client) GetContext(ctx context.Context, dst []byte, url string) (statusCode int, body []byte, err error) {
	return clientGetContext(ctx, c, dst, url)
}

// Post sends postArgs as a form to url, nothing if they are nil, and goes on as
// Get does.
func (c *Client) Post(dst []byte, url string, postArgs *Args) (statusCode int, body []byte, err error) {
	return clientPost(context.Background(), c, dst, url, postArgs)
}

// PostContext is Post that ends when ctx does; see DoContext.
func (c *Client) PostContext(ctx context.Context, dst []byte, url string, postArgs *Args) (statusCode int, body []byte, err error) {
	return clientPost(ctx, c, dst, url, postArgs)
}

// DoRedirects is Do that follows redirects, at most maxRedirectsCount: one more
// is ErrTooManyRedirects. A redirect without a Location is ErrMissingLocation.
//
// By RFC 9110 section 15.4, 303 makes any method but HEAD a GET, and 301 and 302
// make POST one; the body and the fields about it are then dropped. A body
// stream cannot be sent again: ErrRedirectBodyStream. Credentials (Authorization,
// Cookie and their like) are not sent to another origin. req is then what was
// sent last.
func (c *Client) DoRedirects(req *Request, resp *Response, maxRedirectsCount int) error {
	return doRedirects(c, req, resp, maxRedirectsCount)
}

// Get requests url, follows up to 16 redirects, and returns status and body of
// the last response. The body is appended to dst[:0], whose memory it uses if it
// fits. With an error, the status is 0, and the body what had come of it; after
// ErrTimeout it is dst.
func (c *HostClient) Get(dst []byte, url string) (statusCode int, body []byte, err error) {
	return clientGet(c, dst, url)
}

// GetTimeout is Get with a bound for all of it: ErrTimeout.
func (c *HostClient) GetTimeout(dst []byte, url string, timeout time.Duration) (statusCode int, body []byte, err error) {
	return c.GetDeadline(dst, url, time.Now().Add(timeout))
}

// GetDeadline is Get with a bound for all of it: ErrTimeout.
func (c *HostClient) GetDeadline(dst []byte, url string, deadline time.Time) (statusCode int, body []byte, err error) {
	return clientGetDeadline(c, dst, url, deadline)
}

// GetContext is Get that ends when ctx does; see DoContext.
func (c *HostClient) GetContext(ctx context.Context, dst []byte, url string) (statusCode int, body []byte, err error) {
	return clientGetContext(ctx, c, dst, url)
}

// Post sends postArgs as a form to url, nothing if they are nil, and goes on as
// Get does.
func (c *HostClient) Post(dst []byte, url string, postArgs *Args) (statusCode int, body []byte, err error) {
	return clientPost(context.Background(), c, dst, url, postArgs)
}

// PostContext is Post that ends when ctx does; see DoContext.
func (c *HostClient) PostContext(ctx context.Context, dst []byte, url string, postArgs *Args) (statusCode int, body []byte, err error) {
	return clientPost(ctx, c, dst, url, postArgs)
}

// DoRedirects is Do that follows redirects, at most maxRedirectsCount: one more
// is ErrTooManyRedirects. A redirect without a Location is ErrMissingLocation.
//
// By RFC 9110 section 15.4, 303 makes any method but HEAD a GET, and 301 and 302
// make POST one; the body and the fields about it are then dropped. A body
// stream cannot be sent again: ErrRedirectBodyStream. Credentials (Authorization,
// Cookie and their like) are not sent to another origin. req is then what was
// sent last.
func (c *HostClient) DoRedirects(req *Request, resp *Response, maxRedirectsCount int) error {
	return doRedirects(c, req, resp, maxRedirectsCount)
}

// maxRedirects is how many redirects Get and Post follow.
const maxRedirects = 16

// A fetching is what a Get or Post needs: one thing to take from a pool.
type fetching struct {
	req  Request
	resp Response
}

func clientGet(c doer, dst []byte, url string) (int, []byte, error) {
	f := acquireFetching()
	defer releaseFetching(f)
	return f.fetch(c, dst, url)
}

func clientGetDeadline(c doer, dst []byte, url string, deadline time.Time) (int, []byte, error) {
	left := time.Until(deadline)
	if left <= 0 {
		return 0, dst, ErrTimeout
	}
	f := acquireFetching()
	defer releaseFetching(f)
	f.req.call.allow(left)
	return f.fetch(c, dst, url)
}

func clientGetContext(ctx context.Context, c doer, dst []byte, url string) (int, []byte, error) {
	f := acquireFetching()
	defer releaseFetching(f)
	return f.fetchContext(ctx, c, dst, url)
}

func clientPost(ctx context.Context, c doer, dst []byte, url string, postArgs *Args) (int, []byte, error) {
	f := acquireFetching()
	defer releaseFetching(f)
	f.req.Header.SetMethod(MethodPost)
	f.req.Header.SetContentType("application/x-www-form-urlencoded")
	if postArgs != nil {
		f.req.SetBody(postArgs.QueryString())
	}
	return f.fetchContext(ctx, c, dst, url)
}

// fetchContext is fetch that ends when ctx does.
func (f *fetching) fetchContext(ctx context.Context, c doer, dst []byte, url string) (int, []byte, error) {
	if ctx.Done() != nil {
		if err := context.Cause(ctx); err != nil {
			return 0, dst, &PhaseError{Phase: PhaseWait, Err: err}
		}
		f.req.call.ctx = ctx
	}
	f.req.call.trace = traceOf(ctx)
	return f.fetch(c, dst, url)
}

// fetch sends the request to url and returns what Get returns.
func (f *fetching) fetch(c doer, dst []byte, url string) (statusCode int, body []byte, err error) {
	req, resp := &f.req, &f.resp
	req.SetRequestURI(url)
	req.call.wants = wantsBytes
	err = doRedirects(c, req, resp, maxRedirects)
	if err == nil && resp.IsBodyStream() {
		err = resp.bufferStream()
	}
	switch {
	case err == nil:
		return resp.StatusCode(), append(dst[:0], resp.bodyBytes()...), nil
	case errors.Is(err, ErrTimeout), req.call.hasEnded():
		return 0, dst, err
	}
	return 0, append(dst[:0], resp.bodyBytes()...), err
}
