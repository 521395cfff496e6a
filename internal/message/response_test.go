package message

import (
	"bytes"
	"mime/multipart"
	"runtime"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// TestSettleHead: a response without a length closes the connection, unless it answers HEAD.
func TestSettleHead(t *testing.T) {
	for name, c := range map[string]struct {
		head                 h1.Head
		closes, closesOnHead bool
	}{
		"no length":        {h1.Head{Minor: 1, StatusCode: 200}, true, false},
		"length":           {h1.Head{Minor: 1, StatusCode: 200, Flags: h1.HasLength}, false, false},
		"chunked":          {h1.Head{Minor: 1, StatusCode: 200, Flags: h1.ChunkedBody}, false, false},
		"no content":       {h1.Head{Minor: 1, StatusCode: 204}, false, false},
		"close":            {h1.Head{Minor: 1, StatusCode: 200, Flags: h1.ConnectionClose}, true, true},
		"close, length":    {h1.Head{Minor: 1, StatusCode: 200, Flags: h1.ConnectionClose | h1.HasLength}, true, true},
		"HTTP/1.0":         {h1.Head{StatusCode: 200}, true, true},
		"HTTP/1.0, length": {h1.Head{StatusCode: 200, Flags: h1.HasLength}, true, true},
	} {
		var h, other ResponseHeader
		h.SetParsed(&c.head)
		if h.ConnectionClose != c.closes {
			t.Errorf("%s: closes: %v", name, h.ConnectionClose)
		}
		h.SetReason([]byte("why"))
		other.SetStatus(404)
		other.Exchange(&h)
		if other.Status() != c.head.StatusCode || h.Status() != 404 || string(other.Reason()) != "why" || h.Reason() != nil {
			t.Errorf("%s: exchanged: %d %q, %d %q", name, other.Status(), other.Reason(), h.Status(), h.Reason())
		}
		if other.SettleHead(); other.ConnectionClose != c.closesOnHead {
			t.Errorf("%s: closes after HEAD: %v", name, other.ConnectionClose)
		}
	}
}

// TestServerIsTheHeaders: who writes to the server's name that a header returns changes no other message.
func TestServerIsTheHeaders(t *testing.T) {
	var h ResponseHeader
	h.DefaultServer, h.ShowsServer = []byte("ours"), true
	for range 2 {
		got := h.Server()
		if string(got) != "ours" {
			t.Errorf("the server is %q", got)
		}
		copy(got, "XXXX")
	}
	h.SetKnown(field.Server, []byte("another"))
	if got := h.Server(); string(got) != "another" || string(h.DefaultServer) != "ours" {
		t.Errorf("the server is %q, the default %q", got, h.DefaultServer)
	}
}

// TestSetContentRange: negative positions, and a range that ends before it begins, are none.
func TestSetContentRange(t *testing.T) {
	for want, c := range map[string][3]int{
		"bytes 0-0/1": {0, 0, 1}, "bytes 0-9/*": {0, 9, -1}, "bytes 5-5/0": {5, 5, 0}, "bytes */10": {-1, 9, 10}, "bytes */11": {5, 4, 11}, "bytes */*": {1, 0, -1},
	} {
		var h ResponseHeader
		h.SetContentRange(c[0], c[1], c[2])
		if got := string(h.Get(field.ContentRange)); got != want {
			t.Errorf("%v: %q, want %q", c, got, want)
		}
	}
}

// TestFormFilesLeave: the files are there until the last header has gone.
func TestFormFilesLeave(t *testing.T) {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	const count = 3
	for range count {
		part, err := w.CreateFormFile("file", "name")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write(make([]byte, MaxFormMemory/2))
	}
	_ = w.Close()
	form, err := ReadForm(&body, w.Boundary())
	if err != nil {
		t.Fatal(err)
	}
	last := form.File["file"][count-1]
	f := FilesOf(form)
	for left := count - 1; left >= 0; left-- {
		f.leave()
		file, err := last.Open()
		if (err == nil) != (left > 0) {
			t.Errorf("while %d headers are used: %v", left, err)
		}
		if err == nil {
			_ = file.Close()
		}
	}
	runtime.KeepAlive(form)
}
