package wire

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

// learn asks a server once, checks the answer, and remembers its length: what
// is measured must be the same everywhere.
func (c *wireCase) learn(server *contender) error {
	l := c.load
	l.Addr, l.Request = server.addr, c.request()
	answer, err := l.Ask()
	if err != nil {
		return err
	}
	if needsBody, _ := c.needs(); server.isOther && !needsBody {
		if answer.Response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", answer.Response.Status)
		}
	} else if err := c.check(answer.Response, answer.Content); err != nil {
		return err
	} else if c.file != nil && !server.isOther {
		if err := checkFile(answer.Header, len(answer.Content)); err != nil {
			return err
		}
	}
	server.size = answer.Size
	server.fields = strings.Join(slices.Sorted(maps.Keys(answer.Header)), ", ")
	return nil
}

func (c *wireCase) check(response *http.Response, body []byte) error {
	encoding := ""
	if c.peer.Answer == peers.AnswerGzip {
		encoding = "gzip"
	}
	if got := response.Header.Get("Content-Encoding"); got != encoding {
		return fmt.Errorf("Content-Encoding %q, want %q", got, encoding)
	}
	if encoding != "" {
		decoder, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return err
		}
		if body, err = io.ReadAll(decoder); err != nil {
			return err
		}
	}
	switch {
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("status %s", response.Status)
	case !bytes.Equal(body, c.body()):
		return fmt.Errorf("another body, of %d bytes", len(body))
	case response.Close != c.load.Close:
		return fmt.Errorf("it closes the connection: %v, want %v", response.Close, c.load.Close)
	}
	return nil
}

// floorResponse is what the C program writes: a response with the fields that
// every server sends.
func floorResponse(c *wireCase) []byte {
	body, fields := c.body(), ""
	if c.peer.Answer == peers.AnswerGzip {
		var compressed bytes.Buffer
		encoder, _ := gzip.NewWriterLevel(&compressed, peers.GzipLevel) // the level is a valid one
		encoder.Write(body)
		encoder.Close()
		body, fields = compressed.Bytes(), "Content-Encoding: gzip\r\n"
	}
	if c.load.Close {
		fields += "Connection: close\r\n"
	}
	head := "HTTP/1.1 200 OK\r\nServer: floor\r\nDate: Sun, 22 Nov 2026 08:00:00 GMT\r\nContent-Type: text/plain\r\n" +
		fields + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	return append([]byte(head), body...)
}
