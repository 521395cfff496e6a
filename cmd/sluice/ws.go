package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/http3"
	"github.com/sluicehttp/sluice/tools/lab/cli"
	"github.com/sluicehttp/sluice/websocket"
)

// maxMessageLine is the longest line of stdin, and the largest message, in bytes.
const maxMessageLine = 16 << 20

// The exit statuses of "sluice ws".
const (
	wsBroken = 1 // not connected, or the connection broke
	wsClosed = 3 // closed with another code than 1000, 1001 and 1005
)

// wsOptions are the flags of "sluice ws".
type wsOptions struct {
	getOptions // headers, insecure, caFile, connectTimeout
	protocols  []string
	origin     string
	asJSON     bool
	compressed bool
	wait       time.Duration
}

const wsHelp = `Ws opens a WebSocket to URL, sends each line of stdin as a text message, and
prints each message that comes on a line of its own. Binary messages are printed
as <N bytes: HEX>. On a terminal, control characters are printed as \x1b;
elsewhere messages are as they came. With --json each message is an object:
{"time", "kind", "data"}, with the data of binary messages in base64.

When stdin ends, ws waits until the server closes, at most --wait. Ctrl-C closes.

Exit status: 0 if the connection was closed with code 1000, 1001 or without a
code; 1 if there was none, or it broke; 2 for wrong use; 3 if it was closed with
another code, which is printed to stderr.`

const wsExamples = `  sluice ws ws://localhost:8080/ws
  sluice ws ws+unix:/run/app.sock:/chat
  printf 'hello\n' | sluice ws --wait 1 wss://example.com/echo
  sluice ws --http3 wss://example.com/echo
  sluice ws --json --protocol v2 -H 'Authorization: Bearer x' wss://example.com`

func newWSCommand() *cobra.Command {
	var o wsOptions
	cmd := &cobra.Command{
		Use:     "ws URL",
		Short:   "Open a WebSocket and talk over it",
		Long:    wsHelp,
		Example: wsExamples,
		Args:    cli.OneArgument("URL"),

		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkHeaders(o.headers); err != nil {
				return cli.Misuse(err)
			}
			if !strings.Contains(args[0], "://") && !strings.HasPrefix(strings.ToLower(args[0]), "ws+unix:") {
				args[0] = "ws://" + args[0]
			}
			for _, name := range o.protocols {
				if !isToken(name) { // a comma would offer two
					return cli.Misuse(fmt.Errorf("--protocol: %q is not the name of a subprotocol", name))
				}
			}
			if o.http3 && !strings.HasPrefix(strings.ToLower(args[0]), "wss://") {
				return cli.Misuse(errors.New("--http3 needs a URL of wss://"))
			}
			if status := runWS(cmd.Context(), o, args[0]); status != 0 {
				os.Exit(status)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVarP(&o.headers, "header", "H", nil, "add the field `'NAME: VALUE'` to the request")
	flags.StringArrayVar(&o.protocols, "protocol", nil, "offer the subprotocol `NAME`; several are offered in their order")
	flags.StringVar(&o.origin, "origin", "", "the `ORIGIN` of the page that connects, such as https://example.com")
	flags.BoolVar(&o.http3, "http3", false, "speak HTTP/3, to wss: URLs, and nothing else")
	flags.BoolVar(&o.compressed, "compressed", false, "offer permessage-deflate")
	flags.BoolVar(&o.asJSON, "json", false, "print messages as JSON, one on each line")
	flags.Var(cli.SecondsOf(&o.wait, 0), "wait", "how long to wait for the server after the end of stdin, in `SECONDS` or as 500ms; 0 is until it closes")
	flags.Var(cli.SecondsOf(&o.connectTimeout, 30*time.Second), "connect-timeout", "bound for connecting, in `SECONDS` or as 500ms")
	flags.BoolVarP(&o.insecure, "insecure", "k", false, "accept any certificate")
	flags.StringVar(&o.caFile, "cacert", "", "accept certificates signed by those in `FILE` (PEM)")
	return cmd
}

// runWS returns the exit status.
func runWS(parent context.Context, o wsOptions, url string) int {
	ctx, stop := untilInterrupted(parent)
	defer stop()
	client := &sluice.Client{DialDualStack: true}
	defer client.CloseIdleConnections() // the server need not wait for the time-out of QUIC
	c, err := o.dial(ctx, url, client)
	if err != nil {
		reportWS(err)
		return wsBroken
	}
	go sendLines(ctx, c, os.Stdin, o.wait)
	err = printMessages(ctx, c, os.Stdout, o.form())
	if ctx.Err() != nil {
		return 0
	}
	var closed *websocket.CloseError
	switch {
	case !errors.As(err, &closed) || closed.Code == websocket.CodeAbnormal:
		reportWS(err)
		return wsBroken
	case closed.Code == websocket.CodeNormal || closed.Code == websocket.CodeGoingAway || closed.Code == websocket.CodeNone:
		return 0
	}
	reportWS(err)
	return wsClosed
}

// maxRefusal is how much of the body of a refusal is shown, in bytes.
const maxRefusal = 1 << 10

// reportWS prints an error; those of package websocket begin with the name already, and may
// have a reason from the peer. A server that refuses the handshake says why in the body.
func reportWS(err error) {
	fmt.Fprintln(os.Stderr, "sluice:", visible(cli.Message(err)))
	var refused *websocket.HandshakeError
	if !errors.As(err, &refused) || refused.Header == nil {
		return
	}
	kind := refused.Header.ContentType()
	if text := bytes.TrimSpace(refused.Body); len(text) > 0 && (len(kind) == 0 || isText(kind)) {
		fmt.Fprintf(os.Stderr, "%s\n", visible(string(text[:min(len(text), maxRefusal)])))
	}
}

// isText reports whether a body of this type can be shown.
func isText(contentType []byte) bool {
	kind, _, _ := strings.Cut(strings.ToLower(string(contentType)), ";")
	kind = strings.TrimSpace(kind)
	return strings.HasPrefix(kind, "text/") && kind != "text/html" || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "xml")
}

// dial opens the WebSocket. Over HTTP/3 it is a stream of client.
func (o *wsOptions) dial(ctx context.Context, url string, client *sluice.Client) (*websocket.Conn, error) {
	config, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	var header sluice.RequestHeader
	for _, text := range o.headers {
		if name, value, isLeftOut := splitHeader(text); !isLeftOut {
			header.Add(name, value)
		}
	}
	if o.origin != "" {
		header.Set(sluice.HeaderOrigin, o.origin)
	}
	e := &websocket.Endpoint{Protocols: o.protocols, ReadLimit: maxMessageLine}
	if o.compressed {
		e.Compression = websocket.CompressionShared
	}
	options := &websocket.DialOptions{Endpoint: e, Header: &header, TLSConfig: config}
	if o.http3 {
		client.TLSConfig, client.Transport = config, &http3.Transport{Mode: http3.Only}
		options.Client = client
	}
	ctx, cancel := context.WithTimeout(ctx, o.connectTimeout)
	defer cancel()
	return websocket.Dial(ctx, url, options)
}

// sendLines sends the lines of in. After its end, and when ctx ends, it closes c.
func sendLines(ctx context.Context, c *websocket.Conn, in io.Reader, wait time.Duration) {
	closeNow := func() { _ = c.Close(websocket.CodeNormal, "") } // once is enough
	context.AfterFunc(ctx, closeNow)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxMessageLine)
	for lines.Scan() {
		if c.Write(ctx, websocket.Text, lines.Bytes()) != nil {
			return // printMessages has the error
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "sluice: stdin:", err)
	}
	if wait > 0 {
		time.AfterFunc(wait, closeNow)
	}
}

// printMessages prints what comes until the connection ends. It returns why.
func printMessages(ctx context.Context, c *websocket.Conn, out io.Writer, form messageForm) error {
	for {
		m, err := c.Read(context.WithoutCancel(ctx)) // sendLines closes c
		if err != nil {
			return err
		}
		if _, err := out.Write(formatMessage(m, form, time.Now())); err != nil {
			return err
		}
	}
}

// A messageForm is how messages are printed.
type messageForm uint8

const (
	formPlain   messageForm = iota // texts as they are
	formVisible                    // for a terminal, which must not obey them
	formJSON
)

func (o *wsOptions) form() messageForm {
	switch {
	case o.asJSON:
		return formJSON
	case term.IsTerminal(int(os.Stdout.Fd())):
		return formVisible
	}
	return formPlain
}

// visible makes control characters visible, other than the ends of lines and tabs.
func visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// formatMessage returns a line.
func formatMessage(m websocket.Message, form messageForm, now time.Time) []byte {
	if form == formJSON {
		line := struct {
			Time time.Time `json:"time"`
			Kind string    `json:"kind"`
			Data any       `json:"data"`
		}{now, "text", string(m.Data)}
		if m.Kind == websocket.Binary {
			line.Kind, line.Data = "binary", m.Data // base64
		}
		text, _ := json.Marshal(line) // it cannot fail
		return append(text, '\n')
	}
	if m.Kind == websocket.Binary {
		return fmt.Appendf(nil, "<%d bytes: %x>\n", len(m.Data), m.Data)
	}
	if form == formVisible {
		return append([]byte(visible(string(m.Data))), '\n')
	}
	return append(append([]byte(nil), m.Data...), '\n')
}
