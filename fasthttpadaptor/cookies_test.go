package fasthttpadaptor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// Cookies come back to where they are from, over redirects too, and to nobody else. The request keeps
// what it had.
func TestCookieJar(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/login":
			for _, c := range []string{"a=1", "b=2; Path=/private", "b=3; Path=/other", "gone=3; Max-Age=0", "x=4; Domain=127.0.0.1", "bad", "a=6; Path=/private"} {
				w.Header().Add("Set-Cookie", c)
			}
			http.Redirect(w, r, "/after", http.StatusFound)
		case "/logout":
			w.Header().Add("Set-Cookie", "a=; Max-Age=-1")
		default:
			fmt.Fprintf(w, "%s %s", r.URL.Path, r.Header["Cookie"])
		}
	})
	server := httptest.NewServer(handler)
	defer server.Close()
	other := httptest.NewServer(handler)
	defer other.Close()
	client := &sluice.Client{Transport: NewCookieJar()}
	defer client.CloseIdleConnections()
	for _, c := range []struct{ url, cookie, want string }{
		{server.URL + "/before", "", "/before []"},
		{server.URL + "/before", "own=0", "/before [own=0]"},
		{server.URL + "/login", "", "/after [a=1; x=4]"},
		{server.URL + "/private/x", "", "/private/x [b=2; a=6; a=1; x=4]"},
		{server.URL + "/", "a=mine; c=9", "/ [a=mine; c=9; x=4]"},
		{strings.Replace(other.URL, "127.0.0.1", "localhost", 1) + "/", "", "/ []"},
		{server.URL + "/logout", "", ""},
		{server.URL + "/", "", "/ [x=4]"},
	} {
		var req sluice.Request
		var resp sluice.Response
		req.SetRequestURI(c.url)
		if c.cookie != "" {
			req.Header.Set("Cookie", c.cookie)
		}
		if err := client.DoRedirects(&req, &resp, 3); err != nil {
			t.Fatal(err)
		}
		if got := string(resp.Body()); got != c.want {
			t.Errorf("%s with %q: %q, want %q", c.url, c.cookie, got, c.want)
		}
		if got := string(req.Header.Peek("Cookie")); got != c.cookie {
			t.Errorf("%s: the request has %q afterwards, and had %q", c.url, got, c.cookie)
		}
	}
}

// A site sets no cookie for all below a public suffix. What fails is passed on.
func TestCookieJarSuffixes(t *testing.T) {
	jar := NewCookieJar()
	jar.Next = roundTripperFunc(func(_ *sluice.HostClient, _ *sluice.Request, resp *sluice.Response) (bool, error) {
		resp.Header.Add("Set-Cookie", "all=1; Domain=co.uk")
		resp.Header.Add("Set-Cookie", "own=2; Domain=a.co.uk")
		return true, nil
	})
	var req sluice.Request
	var resp sluice.Response
	req.SetRequestURI("https://www.a.co.uk/")
	if retry, err := jar.RoundTrip(nil, &req, &resp); !retry || err != nil {
		t.Errorf("%v, %v", retry, err)
	}
	for host, want := range map[string]string{"a.co.uk": "[own=2]", "b.co.uk": "[]", "www.a.co.uk": "[own=2]"} {
		if got := fmt.Sprint(jar.Jar.Cookies(&url.URL{Scheme: "https", Host: host, Path: "/"})); got != want {
			t.Errorf("%s gets %s, want %s", host, got, want)
		}
	}
	jar.Next = roundTripperFunc(func(*sluice.HostClient, *sluice.Request, *sluice.Response) (bool, error) {
		return true, sluice.ErrTimeout
	})
	if retry, err := jar.RoundTrip(nil, &req, &resp); !retry || err != sluice.ErrTimeout {
		t.Errorf("%v, %v", retry, err)
	}
}

type roundTripperFunc func(*sluice.HostClient, *sluice.Request, *sluice.Response) (bool, error)

func (f roundTripperFunc) RoundTrip(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) (bool, error) {
	return f(c, req, resp)
}
