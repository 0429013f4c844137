// Server mounts the OpenAI and Anthropic APIs below /copilot/ in an existing
// HTTP server.
//
//	go run ./examples/server [-demo] [-addr 127.0.0.1:8080]
//	curl http://127.0.0.1:8080/copilot/v1/models
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	copilotbridge "github.com/copilot-bridge/copilot-bridge"
)

func main() {
	demo := flag.Bool("demo", false, "let the built-in demo model answer")
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *demo, *addr)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, demo bool, addr string) (err error) {
	client, err := copilotbridge.Open(ctx, copilotbridge.Options{Demo: demo})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	mux.Handle("/copilot/", http.StripPrefix("/copilot", client.Handler())) // add your own authentication here

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/copilot/v1\n", listener.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(end)
}
