package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// call calls the server with grpc-go's client, and prints what it answers.
func call(ctx context.Context, addr string, isSecure bool, token string, out io.Writer) error {
	c, err := dial(addr, isSecure)
	if err != nil {
		return err
	}
	defer c.Close()
	client := healthpb.NewHealthClient(c)
	authorized := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)

	reply, err := client.Check(authorized, &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "a call:", reply.Status)

	update, err := watch(authorized, client)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "a stream's first message:", update.Status)

	_, err = client.Check(authorized, &healthpb.HealthCheckRequest{Service: "none"})
	fmt.Fprintln(out, "an error of the service:", status.Convert(err).Code())

	_, err = client.Check(ctx, &healthpb.HealthCheckRequest{})
	refused := status.Convert(err)
	fmt.Fprintf(out, "without a token: %s, %s\n", refused.Code(), refused.Message())
	return nil
}

// watch reads the first message of a stream and cancels the rest.
func watch(ctx context.Context, client healthpb.HealthClient) (*healthpb.HealthCheckResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updates, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return nil, err
	}
	return updates.Recv()
}

func dial(addr string, isSecure bool) (*grpc.ClientConn, error) {
	security := insecure.NewCredentials()
	if isSecure {
		security = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}) // the certificate was made at the start
	}
	return grpc.NewClient(addr, grpc.WithTransportCredentials(security))
}
