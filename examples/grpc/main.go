// Command grpc serves gRPC and ordinary requests on one port, in plain text or over TLS.
// The service is grpc-go's own for health checks: a call, a stream, and errors.
//
//	go run ./examples/grpc
//	go run ./examples/grpc -call                   # in another terminal: every kind of call
//	curl http://127.0.0.1:8080/                    # HTTP/1.1 beside them
//	curl -X POST http://127.0.0.1:8080/drain       # what watches the health is told
//	go run ./examples/grpc -tls                    # and -call -tls
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
	"github.com/sluicehttp/sluice/tcplisten"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on, or to call")
	isSecure := flag.Bool("tls", false, "TLS, with a certificate that is made at the start and that -call does not verify")
	token := flag.String("token", "secret", "what callers must send as their authorization")
	isClient := flag.Bool("call", false, "call the server, and print the answers")
	flag.Parse()
	if *isClient {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := call(ctx, *addr, *isSecure, *token, os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	ln, err := new(tcplisten.Config).NewListener("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", *addr)
	log.Fatal(serve(newServer(*token), ln, *isSecure))
}

// newServer returns a server whose handler chooses by the content type: gRPC or not.
// With StreamRequestBody, calls begin before the client has sent all of its messages.
func newServer(token string) *sluice.Server {
	checks := health.NewServer()
	services := grpc.NewServer()
	healthpb.RegisterHealthServer(services, checks)
	calls, authorization := handleCalls(services), []byte("Bearer "+token)
	return &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
		switch {
		case !bytes.HasPrefix(ctx.Request.Header.ContentType(), []byte("application/grpc")):
			handlePage(ctx, checks)
		case !bytes.Equal(ctx.Request.Header.Peek("Authorization"), authorization):
			refuse(ctx, codes.Unauthenticated, "a token is missing")
		default:
			calls(ctx)
		}
	}}
}

// handleCalls runs grpc-go's server, which is a handler of net/http.
func handleCalls(services http.Handler) sluice.RequestHandler {
	return fasthttpadaptor.NewFastHTTPHandler(services)
}

// refuse answers a call before grpc-go sees it. There is no message, so the status is
// in the head of the response, which ends with it: gRPC calls that Trailers-Only.
// Other characters than those of ASCII must be percent-encoded in reason.
func refuse(ctx *sluice.RequestCtx, code codes.Code, reason string) {
	ctx.SetContentType("application/grpc")
	ctx.Response.Header.Set("Grpc-Status", strconv.Itoa(int(code)))
	ctx.Response.Header.Set("Grpc-Message", reason)
}

// handlePage answers requests that are not gRPC.
func handlePage(ctx *sluice.RequestCtx, checks *health.Server) {
	switch string(ctx.Path()) {
	case "/":
		fmt.Fprintf(ctx, "%s, TLS: %t\n", ctx.Request.Header.Protocol(), ctx.IsTLS())
	case "/drain":
		if !ctx.IsPost() {
			ctx.Error("POST, please", sluice.StatusMethodNotAllowed)
			return
		}
		checks.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		ctx.WriteString("not serving\n")
	default:
		ctx.NotFound()
	}
}

// serve serves HTTP/1.1 and HTTP/2 on ln. In plain text a client of gRPC begins with the
// preface of HTTP/2, over TLS it negotiates h2.
func serve(s *sluice.Server, ln net.Listener, isSecure bool) error {
	if !isSecure {
		return s.Serve(ln)
	}
	host, _, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return err
	}
	cert, key, err := sluice.GenerateTestCertificate(host)
	if err != nil {
		return err
	}
	return s.ServeTLSEmbed(ln, cert, key)
}
