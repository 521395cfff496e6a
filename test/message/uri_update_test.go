package message_test

import (
	"testing"

	"github.com/sluicehttp/sluice"
)

func TestURIUpdate(t *testing.T) {
	const base = "https://u:p@h.com/a/b/c?q=1#frag"
	for reference, want := range map[string]string{
		"": "u:p@https://h.com/a/b/c?q=1#frag", "#z": "u:p@https://h.com/a/b/c?q=1#z", "#": "u:p@https://h.com/a/b/c?q=1",
		"?y": "u:p@https://h.com/a/b/c?y#frag", "?": "u:p@https://h.com/a/b/c#frag", "?y#z": "u:p@https://h.com/a/b/c?y#z", "?u=http://k/": "u:p@https://h.com/a/b/c?u=http://k/#frag",
		"/": "https://h.com/", "/x?y#z": "https://h.com/x?y#z", "/x//y": "https://h.com/x/y", "/x?u=http://k/": "https://h.com/x?u=http://k/",
		"x": "https://h.com/a/b/x", "./x": "https://h.com/a/b/x", "../x": "https://h.com/a/x", "../../../x": "https://h.com/x", "..": "https://h.com/a/",
		"x//y": "https://h.com/a/b/x/y", "x?u=//k": "https://h.com/a/b/x?u=//k", "x?u=http://k": "https://h.com/a/b/x?u=http://k", "1x://y": "https://h.com/a/b/1x:/y",
		"mailto:x": "https://h.com/a/b/mailto:x", "x@y": "https://h.com/a/b/x@y",
		"//k": "https://k/", "//k/x?y#z": "https://k/x?y#z", "://k": "https://k/", "//U2:P2@k/": "U2:P2@https://k/", "///x": "https:///x",
		"https:": "u:p@https://h.com/a/b/c?q=1#frag", "https:#z": "u:p@https://h.com/a/b/c?q=1#z", "https:?y": "u:p@https://h.com/a/b/c?y#frag", "https:?y#z": "u:p@https://h.com/a/b/c?y#z",
		"https:/x": "https://h.com/x", "https:x": "https://h.com/a/b/x", "HTTPS:../x?y#z": "https://h.com/a/x?y#z", "https:https:x": "https://h.com/a/b/https:x", "https:k://x": "https://h.com/a/b/k:/x",
		"https:?u=k://x": "u:p@https://h.com/a/b/c?u=k://x#frag", "https:%2e%2e": "https://h.com/a/", "https:a@b": "https://h.com/a/b/a@b", "https: x": "https://h.com/a/b/%20x",
		"http:": "https://h.com/a/b/http:", "http:x": "https://h.com/a/b/http:x", "http:/x": "https://h.com/a/b/http:/x", " https:x": "https://h.com/a/b/%20https:x", ":x": "https://h.com/a/b/:x", ":": "https://h.com/a/b/:",
		"https:x\n": "http:///", "https:\x00//k/": "http:///",
		"http://k/x": "http://k/x", "FTP://K/X": "ftp://k/X", "http://": "http:///",
		"http://bad host/": "http:///", "//[::1/": "http:///", "x\r\ny": "http:///", "x?\n": "http:///",
		"#\n": "u:p@https://h.com/a/b/c?q=1#%0A", "?\x00": "u:p@https://h.com/a/b/c?%00#frag", "?\r\ny#\tz": "u:p@https://h.com/a/b/c?%0D%0Ay#%09z", "https:?\x7f": "u:p@https://h.com/a/b/c?%7F#frag",
	} {
		u := parsedURI(t, base)
		u.UpdateBytes([]byte(reference))
		got := u.String()
		if len(u.Username()) > 0 {
			got = string(u.Username()) + ":" + string(u.Password()) + "@" + got
		}
		if got != want {
			t.Errorf("%q: %q, want %q", reference, got, want)
		}
	}
}

// A scheme that was set, and the one that a URI has without any.
func TestURIUpdateWithItsScheme(t *testing.T) {
	for scheme, want := range map[string]string{"": "http://h/x", "http": "http://h/x", "HTTP": "http://h/x", "app": "app://h/http:x"} {
		var u sluice.URI
		u.SetHost("h")
		u.SetScheme(scheme)
		u.Update("http:x")
		if got := u.String(); got != want {
			t.Errorf("%q: %q, want %q", scheme, got, want)
		}
	}
}

func TestURIUpdateBytesErr(t *testing.T) {
	const base = "http://u:p@h/a//b?q=1#f"
	for reference, want := range map[string]struct {
		err     error
		written string
	}{
		"": {nil, "http://h/a//b?q=1&k=v#f"}, "http:": {nil, "http://h/a//b?q=1&k=v#f"}, "x": {nil, "http://h/a/x"}, "//k": {nil, "http://k/"}, "ftp://k/x": {nil, "ftp://k/x"}, "mailto:x": {nil, "http://h/a/mailto:x"}, "/%zz": {nil, "http://h/%25zz"},
		"a\x00b": {sluice.ErrorInvalidURI, ""}, "?\x00": {sluice.ErrorInvalidURI, ""}, "#\x7f": {sluice.ErrorInvalidURI, ""}, "\r\n": {sluice.ErrorInvalidURI, ""}, "http:x\n": {sluice.ErrorInvalidURI, ""}, "//k/\t": {sluice.ErrorInvalidURI, ""}, "https://k\x01/": {sluice.ErrorInvalidURI, ""},
		"//u<@k/": {sluice.ErrorInvalidURI, "http:///"}, "//k:x/": {sluice.InvalidHostError("k:x"), "http:///"}, "http://[::1": {sluice.InvalidHostError("[::1"), "http:///"}, "//k%zz/": {sluice.EscapeError("%zz"), "http:///"}, "//%41/": {sluice.EscapeError("%41"), "http:///"},
	} {
		u := parsedURI(t, base)
		u.DisablePathNormalizing = true
		u.QueryArgs().Set("k", "v")
		before := u.String() + string(u.Username()) + string(u.Password()) + string(u.PathOriginal())
		if err := u.UpdateBytesErr([]byte(reference)); err != want.err {
			t.Errorf("%q: %v, want %v", reference, err, want.err)
		}
		switch got := u.String(); {
		case want.written != "":
			if got != want.written {
				t.Errorf("%q: %q, want %q", reference, got, want.written)
			}
		case got+string(u.Username())+string(u.Password())+string(u.PathOriginal()) != before || !u.DisablePathNormalizing:
			t.Errorf("%q changes %q", reference, got)
		}
	}
}

// Changed pairs of the query stay with what Update leaves, and go with what it replaces.
func TestURIUpdateAndQueryArgs(t *testing.T) {
	u := parsedURI(t, "http://h/a?q=1")
	args := u.QueryArgs()
	if err := u.Parse(nil, []byte("http://h/a")); err != nil || args.Len() != 0 {
		t.Errorf("after Parse: %s, %v", args, err)
	}
	u = parsedURI(t, "http://h/a?q=1")
	args = u.QueryArgs()
	args.Set("r", "2")
	u.Update("#z")
	if got := u.String(); got != "http://h/a?q=1&r=2#z" {
		t.Errorf("a new hash: %q", got)
	}
	u.Update("//k/b")
	if got := u.String(); got != "http://k/b" || args.Len() != 0 || u.QueryArgs().Len() != 0 {
		t.Errorf("a new host: %q, and the pairs are %q", got, args)
	}
}

func TestURIUpdateKeepsEscapesOfTheBase(t *testing.T) {
	for base, want := range map[string]string{"/a%2541/c": "/a%41/x", "/a%3Fb/c": "/a?b/x", "/a%23b/c": "/a#b/x", "/a/../b//c": "/b/x", "": "/x"} {
		u := parsedURI(t, "http://h"+base)
		u.Update("x")
		if got := string(u.Path()); got != want || len(u.QueryString())+len(u.Hash()) > 0 {
			t.Errorf("%q: %q, %q", base, got, u.String())
		}
	}
}

func TestURIUpdateFromOwnParts(t *testing.T) {
	u := parsedURI(t, "http://h/a/b?c#d")
	u.UpdateBytes(u.FullURI())
	if got := u.String(); got != "http://h/a/b?c#d" {
		t.Errorf("with FullURI: %q", got)
	}
	u.UpdateBytes(u.Path()[1:])
	if got := u.String(); got != "http://h/a/a/b" {
		t.Errorf("with a part of Path: %q", got)
	}
	u.DisablePathNormalizing = true
	u.Update("../x")
	if got := u.String(); got != "http://h/a/x" || u.DisablePathNormalizing {
		t.Errorf("normalising is still off: %q", got)
	}
}
