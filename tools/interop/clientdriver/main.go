// Command clientdriver is the client that the raw answers of
// ../shared/clientcases are given to: a sluice.Client with default limits.
//
//	go -C tools/interop run ./clientdriver <<<'GET http://127.0.0.1:8080/'
//
// It reads lines "METHOD URL" and writes a line of JSON for each. METHOD is GET,
// HEAD, POST (with the body "data") or POSTBIG (a POST of 3 MB). All requests are
// one client's; each may take 2 s, and redirects are not followed.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
)

const (
	// timeout bounds a request.
	timeout = 2 * time.Second
	// bigBody is the size of POSTBIG's body.
	bigBody = 3_000_000
	// shownBody is how much of a body is written.
	shownBody = 4096
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run answers the lines of in until that ends.
func run(in io.Reader, out io.Writer) error {
	var client sluice.Client
	lines, results := bufio.NewScanner(in), json.NewEncoder(out)
	results.SetEscapeHTML(false)
	for lines.Scan() {
		if err := results.Encode(ask(&client, lines.Text())); err != nil {
			return err
		}
	}
	return lines.Err()
}

// A result is what became of a request.
type result struct {
	Err    string            `json:"err,omitempty"`
	Status int               `json:"status,omitempty"`
	Body   string            `json:"body"` // its beginning
	Len    int               `json:"len"`
	Header map[string]string `json:"header,omitempty"`
}

// ask sends the request of a line.
func ask(client *sluice.Client, line string) result {
	method, url, ok := strings.Cut(line, " ")
	if !ok {
		return failure(fmt.Errorf("not METHOD URL: %q", line))
	}
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	switch method {
	case sluice.MethodPost:
		req.SetBodyString("data")
	case "POSTBIG":
		method = sluice.MethodPost
		req.SetBody(bytes.Repeat([]byte("z"), bigBody))
	}
	req.Header.SetMethod(method)
	req.SetRequestURI(url)
	if err := client.DoTimeout(req, resp, timeout); err != nil {
		return failure(err)
	}
	body := resp.Body()
	return result{
		Status: resp.StatusCode(),
		Body:   latin1(body[:min(len(body), shownBody)]),
		Len:    len(body),
		Header: fields(resp),
	}
}

func failure(err error) result {
	if err.Error() == "" {
		err = errors.New("an error without a text")
	}
	return result{Err: err.Error()}
}

// fields returns a response's fields; the values of a name are joined as a list.
func fields(resp *sluice.Response) map[string]string {
	all := map[string]string{}
	for name, value := range resp.Header.All() {
		key, text := latin1(name), latin1(value)
		if earlier, ok := all[key]; ok {
			text = earlier + ", " + text
		}
		all[key] = text
	}
	return all
}

// latin1 makes a character of each byte, so that JSON can hold them all.
func latin1(raw []byte) string {
	text := make([]rune, len(raw))
	for i, b := range raw {
		text[i] = rune(b)
	}
	return string(text)
}
