package sluice

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// defaultClient is the client of the package-level functions.
var defaultClient Client

// Do sends req and reads the response into resp, with a Client that all
// package-level functions share. See Client.Do.
func Do(req *Request, resp *Response) error { return defaultClient.Do(req, resp) }

// DoTimeout is Do with a time limit; see Client.DoTimeout.
func DoTimeout(req *Request, resp *Response, timeout time.Duration) error {
	return defaultClient.DoTimeout(req, resp, timeout)
}

// DoDeadline is Do with a deadline; see Client.DoDeadline.
func DoDeadline(req *Request, resp *Response, deadline time.Time) error {
	return defaultClient.DoDeadline(req, resp, deadline)
}

// DoContext is Do with a context; see Client.DoContext.
func DoContext(ctx context.Context, req *Request, resp *Response) error {
	return defaultClient.DoContext(ctx, req, resp)
}

// DoRedirects is Do that follows redirects; see Client.DoRedirects.
func DoRedirects(req *Request, resp *Response, maxRedirectsCount int) error {
	return defaultClient.DoRedirects(req, resp, maxRedirectsCount)
}

// Get requests url and returns status and body; see Client.Get.
func Get(dst []byte, url string) (statusCode int, body []byte, err error) {
	return defaultClient.Get(dst, url)
}

// GetTimeout is Get with a time limit; see Client.GetTimeout.
func GetTimeout(dst []byte, url string, timeout time.Duration) (statusCode int, body []byte, err error) {
	return defaultClient.GetTimeout(dst, url, timeout)
}

// GetDeadline is Get with a deadline; see Client.GetDeadline.
func GetDeadline(dst []byte, url string, deadline time.Time) (statusCode int, body []byte, err error) {
	return defaultClient.GetDeadline(dst, url, deadline)
}

// GetContext is Get with a context; see Client.GetContext.
func GetContext(ctx context.Context, dst []byte, url string) (statusCode int, body []byte, err error) {
	return defaultClient.GetContext(ctx, dst, url)
}

// Post sends a form to url; see Client.Post.
func Post(dst []byte, url string, postArgs *Args) (statusCode int, body []byte, err error) {
	return defaultClient.Post(dst, url, postArgs)
}

// PostContext is Post with a context; see Client.PostContext.
func PostContext(ctx context.Context, dst []byte, url string, postArgs *Args) (statusCode int, body []byte, err error) {
	return defaultClient.PostContext(ctx, dst, url, postArgs)
}

// Get requests url, follows up to 16 redirects as DoRedirects does, and returns
// status and body of the last response. The body is appended to dst[:0] and so reuses the
// memory of dst if it fits. The caller owns it. If there is an error, the
// status is 0, or that of a redirect that cannot be followed, and the body is what was
// received of it; after ErrTimeout, or if a context ended, the body is dst. With
// StreamResponseBody, the body of a redirect with a malformed Location is dropped.
func (c *Client) Get(dst []byte, url string) (statusCode int, body []byte, err error) {
	return clientGet(context.Background(), c, dst, url)
}

// GetTimeout is Get with a time limit for all requests together; exceeding it
// is ErrTimeout.
func (c *Client) GetTimeout(dst []byte, url string, timeout time.Duration) (statusCode int, body []byte, err error) {
	return c.GetDeadline(dst, url, time.Now().Add(timeout))
}

// GetDeadline is GetTimeout with the time until deadline.
func (c *Client) GetDeadline(dst []byte, url string, deadline time.Time) (statusCode int, body []byte, err error) {
	return clientGetDeadline(c, dst, url, deadline)
}

// GetContext is Get with a context; see DoContext.
func (c *Client) GetContext(ctx context.Context, dst []byte, url string) (statusCode int, body []byte, err error) {
	return clientGet(ctx, c, dst, url)
}

// Post sends postArgs as a form (application/x-www-form-urlencoded) to url, or
// an empty body if postArgs is nil. It returns what Get returns, and follows
// redirects as Get does.
func (c *Client) Post(dst []byte, url string, postArgs *Args) (statusCode int, body []byte, err error) {
	return clientPost(context.Background(), c, dst, url, postArgs)
}

// PostContext is Post with a context; see DoContext.
func (c *Client) PostContext(ctx context.Context, dst []byte, url string, postArgs *Args) (statusCode int, body []byte, err error) {
	return clientPost(ctx, c, dst, url, postArgs)
}

// DoRedirects is Do that follows at most maxRedirectsCount redirects. One more
// redirect is ErrTooManyRedirects. A redirect without a Location is
// ErrMissingLocation. A Location of another scheme than http and https is an error,
// or, without "//" as in mailto:x, not followed: resp is then that redirect.
//
// According to RFC 9110 section 15.4, status 303 turns every method except HEAD
// into GET, and 301 and 302 turn POST into GET; the body and the fields that
// describe it are then removed. A body stream cannot be sent twice:
// ErrRedirectBodyStream. Credentials (Authorization, Cookie and similar fields)
// are not sent to another origin. Afterwards, req is the last request that was
// sent.
func (c *Client) DoRedirects(req *Request, resp *Response, maxRedirectsCount int) error {
	call := beginCall(req)
	defer call.end(req)
	_, err := doRedirects(call, c, req, resp, maxRedirectsCount)
	return err
}

// Get requests url and returns status and body; see Client.Get.
func (c *HostClient) Get(dst []byte, url string) (statusCode int, body []byte, err error) {
	return clientGet(context.Background(), c, dst, url)
}

// GetTimeout is Get with a time limit; see Client.GetTimeout.
func (c *HostClient) GetTimeout(dst []byte, url string, timeout time.Duration) (statusCode int, body []byte, err error) {
	return c.GetDeadline(dst, url, time.Now().Add(timeout))
}

// GetDeadline is Get with a deadline; see Client.GetDeadline.
func (c *HostClient) GetDeadline(dst []byte, url string, deadline time.Time) (statusCode int, body []byte, err error) {
	return clientGetDeadline(c, dst, url, deadline)
}

// GetContext is Get with a context; see DoContext.
func (c *HostClient) GetContext(ctx context.Context, dst []byte, url string) (statusCode int, body []byte, err error) {
	return clientGet(ctx, c, dst, url)
}

// Post sends a form to url; see Client.Post.
func (c *HostClient) Post(dst []byte, url string, postArgs *Args) (statusCode int, body []byte, err error) {
	return clientPost(context.Background(), c, dst, url, postArgs)
}

// PostContext is Post with a context; see DoContext.
func (c *HostClient) PostContext(ctx context.Context, dst []byte, url string, postArgs *Args) (statusCode int, body []byte, err error) {
	return clientPost(ctx, c, dst, url, postArgs)
}

// DoRedirects is Do that follows redirects; see Client.DoRedirects.
func (c *HostClient) DoRedirects(req *Request, resp *Response, maxRedirectsCount int) error {
	call := beginCall(req)
	defer call.end(req)
	_, err := doRedirects(call, c, req, resp, maxRedirectsCount)
	return err
}

// maxRedirects is the number of redirects that Get and Post follow.
const maxRedirects = 16

// A fetching holds the Request and Response of a Get or Post, so that a pool
// returns both at once. The call that acquired it owns it.
type fetching struct {
	req  Request
	resp Response
}

func clientGet(ctx context.Context, c doer, dst []byte, url string) (int, []byte, error) {
	f := acquireFetching()
	defer releaseFetching(f)
	return f.fetch(ctx, 0, c, dst, url)
}

func clientGetDeadline(c doer, dst []byte, url string, deadline time.Time) (int, []byte, error) {
	left := time.Until(deadline)
	if left <= 0 {
		return 0, dst, ErrTimeout
	}
	f := acquireFetching()
	defer releaseFetching(f)
	return f.fetch(context.Background(), left, c, dst, url)
}

func clientPost(ctx context.Context, c doer, dst []byte, url string, postArgs *Args) (int, []byte, error) {
	f := acquireFetching()
	defer releaseFetching(f)
	f.req.Header.SetMethod(MethodPost)
	f.req.Header.SetContentType("application/x-www-form-urlencoded")
	if postArgs != nil {
		f.req.SetBody(postArgs.QueryString())
	}
	return f.fetch(ctx, 0, c, dst, url)
}

// fetch sends the request to url, within limit unless that is 0, and returns what Get
// returns.
func (f *fetching) fetch(ctx context.Context, limit time.Duration, c doer, dst []byte, url string) (statusCode int, body []byte, err error) {
	req, resp := &f.req, &f.resp
	call := beginCall(req)
	defer call.end(req)
	if ctx.Done() != nil {
		if err := clock.EndOf(ctx, PhaseWait); err != nil {
			return 0, dst, err
		}
		call.Context = ctx
	}
	if limit > 0 {
		call.Allow(limit)
	}
	call.trace, call.wants = traceOf(ctx), wantsBytes
	req.SetRequestURI(url)
	isAnswered, err := doRedirects(call, c, req, resp, maxRedirects)
	if err == nil && resp.IsBodyStream() {
		err = resp.bufferStream()
		isAnswered = err == nil
	}
	if err != nil && (errors.Is(err, ErrTimeout) || call.HasEnded()) {
		return 0, dst, err
	}
	if isAnswered {
		statusCode = resp.StatusCode()
	}
	return statusCode, append(dst[:0], resp.bodyBytes()...), err
}
