// Package grpc_test serves gRPC with grpc-go's own handler, and calls it with the
// interoperability tests of gRPC:
// https://github.com/grpc/grpc/blob/master/doc/interop-test-descriptions.md
package grpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// onEachServer runs a test with a client of a server, with each engine, over TCP and TLS.
// unknown handles the methods that the test service lacks; nil: they are unimplemented.
func onEachServer(t *testing.T, unknown grpc.StreamHandler, test func(t *testing.T, c *grpc.ClientConn)) {
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		for _, isSecure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/TLS %v", engine, isSecure), func(t *testing.T) {
				var options []grpc.ServerOption
				if unknown != nil {
					options = append(options, grpc.UnknownServiceHandler(unknown))
				}
				services := grpc.NewServer(options...)
				testgrpc.RegisterTestServiceServer(services, interop.NewTestServer())
				s := &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(services), Engine: engine, StreamRequestBody: true}
				c := dial(t, s, isSecure)
				test(t, c)
				if n := s.EngineStats().HTTP2.Calmed; n > 0 {
					t.Errorf("%d connections have used up their budget", n)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if err := s.Shutdown(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// dial serves s, and returns a client of it.
func dial(t *testing.T, s *sluice.Server, isSecure bool) *grpc.ClientConn {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	t.Cleanup(func() {
		_ = s.Shutdown() // after a test that has failed
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	security := insecure.NewCredentials()
	if isSecure {
		cert, key, err := sluice.GenerateTestCertificate("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(cert)
		security = credentials.NewTLS(&tls.Config{RootCAs: roots})
		go func() { served <- s.ServeTLSEmbed(ln, cert, key) }()
	} else {
		go func() { served <- s.Serve(ln) }()
	}
	c, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(security))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fatal is a logger that panics where grpc-go would end the process: its test cases
// report failures with Fatal.
type fatal struct{ grpclog.LoggerV2 }

func (fatal) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (fatal) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (fatal) Fatalln(args ...any)               { panic(fmt.Sprintln(args...)) }
func (f fatal) FatalDepth(_ int, args ...any)   { f.Fatal(args...) }
func (fatal) V(int) bool                        { return false }

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(fatal{grpclog.NewLoggerV2(io.Discard, io.Discard, os.Stderr)})
	os.Exit(m.Run())
}

// TestInterop runs the cases that need neither Google's credentials nor a load balancer.
func TestInterop(t *testing.T) {
	cases := map[string]func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption){
		"empty_unary":                 interop.DoEmptyUnaryCall,
		"large_unary":                 interop.DoLargeUnaryCall,
		"client_streaming":            interop.DoClientStreaming,
		"server_streaming":            interop.DoServerStreaming,
		"ping_pong":                   interop.DoPingPong,
		"empty_stream":                interop.DoEmptyStream,
		"cancel_after_begin":          interop.DoCancelAfterBegin,
		"cancel_after_first_response": interop.DoCancelAfterFirstResponse,
		"timeout_on_sleeping_server":  interop.DoTimeoutOnSleepingServer,
		"custom_metadata":             interop.DoCustomMetadata,
		"status_code_and_message":     interop.DoStatusCodeAndMessage,
		"special_status_message":      interop.DoSpecialStatusMessage,
	}
	onEachServer(t, nil, func(t *testing.T, c *grpc.ClientConn) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		run := func(name string, test func()) {
			t.Run(name, func(t *testing.T) {
				defer func() {
					if v := recover(); v != nil {
						t.Error(v)
					}
				}()
				test()
			})
		}
		for name, one := range cases {
			run(name, func() { one(ctx, testgrpc.NewTestServiceClient(c)) })
		}
		run("unimplemented_method", func() { interop.DoUnimplementedMethod(ctx, c) })
		run("unimplemented_service", func() { interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(c)) })
	})
}

// open begins a call of a method that only the handler of unknown ones has.
func open(ctx context.Context, t *testing.T, c *grpc.ClientConn) grpc.ClientStream {
	stream, err := c.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/service/method")
	if err == nil {
		err = stream.SendMsg(&testgrpc.Empty{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// TestServerEndsFirst: the status arrives although the client has not ended its side.
func TestServerEndsFirst(t *testing.T) {
	onEachServer(t, func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&testgrpc.Empty{}); err != nil {
			return err
		}
		return status.Error(codes.AlreadyExists, "enough")
	}, func(t *testing.T, c *grpc.ClientConn) {
		for range 100 {
			stream := open(t.Context(), t, c)
			if err := stream.RecvMsg(&testgrpc.Empty{}); status.Code(err) != codes.AlreadyExists {
				t.Fatal(err)
			}
		}
	})
}

// TestCancelReachesHandler: the context of a handler ends when the client cancels, and
// when the deadline that the client has named is over.
func TestCancelReachesHandler(t *testing.T) {
	begun, ended := make(chan bool, 1), make(chan error, 1)
	onEachServer(t, func(_ any, stream grpc.ServerStream) error {
		_, hasDeadline := stream.Context().Deadline()
		begun <- hasDeadline
		<-stream.Context().Done()
		ended <- stream.Context().Err()
		return stream.Context().Err()
	}, func(t *testing.T, c *grpc.ClientConn) {
		ctx, cancel := context.WithCancel(t.Context())
		open(ctx, t, c)
		if <-begun {
			t.Error("a deadline that the client has not named")
		}
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		stream := open(ctx, t, c)
		if !<-begun {
			t.Error("the handler has no deadline")
		}
		if err := <-ended; err == nil {
			t.Error("no error")
		}
		if err := stream.RecvMsg(&testgrpc.Empty{}); status.Code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
	})
}

// TestParallelCalls: many calls share the connection, each with a large message both ways.
func TestParallelCalls(t *testing.T) {
	onEachServer(t, nil, func(t *testing.T, c *grpc.ClientConn) {
		client := testgrpc.NewTestServiceClient(c)
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				const size = 300_000
				reply, err := client.UnaryCall(t.Context(), &testgrpc.SimpleRequest{ResponseSize: size, Payload: interop.ClientNewPayload(testgrpc.PayloadType_COMPRESSABLE, size)})
				if err != nil || len(reply.GetPayload().GetBody()) != size {
					t.Error(err)
				}
			})
		}
		group.Wait()
	})
}

// TestManyMessages: grpc-go measures the round trip with a PING after each message, one at a
// time, and returns its credit then. That is no flood.
func TestManyMessages(t *testing.T) {
	const messages = 2000
	onEachServer(t, func(_ any, stream grpc.ServerStream) error {
		for {
			m := &testgrpc.Empty{}
			if err := stream.RecvMsg(m); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := stream.SendMsg(&testgrpc.SimpleResponse{Username: "a message"}); err != nil {
				return err
			}
		}
	}, func(t *testing.T, c *grpc.ClientConn) {
		stream := open(t.Context(), t, c)
		for i := range messages {
			reply := &testgrpc.SimpleResponse{}
			if err := stream.RecvMsg(reply); err != nil || reply.GetUsername() != "a message" {
				t.Fatalf("message %d: %v", i, err)
			}
			if err := stream.SendMsg(&testgrpc.Empty{}); err != nil {
				t.Fatal(err)
			}
		}
		client := testgrpc.NewTestServiceClient(c)
		for i := range messages {
			reply, err := client.UnaryCall(t.Context(), &testgrpc.SimpleRequest{ResponseSize: 10})
			if err != nil || len(reply.GetPayload().GetBody()) != 10 {
				t.Fatalf("call %d: %v", i, err)
			}
		}
	})
}
