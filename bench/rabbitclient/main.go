// Command rabbitclient does P12's work on RabbitMQ: it publishes messages one by
// one through the client library, waits until the broker has confirmed all, and
// consumes them. It is a module of its own so that RabbitMQ's clients stay out of
// Tidemark's.
//
//	rabbitclient quorum|stream URL NAME MESSAGES BYTES
//
// It prints {"Publish": seconds, "Consume": seconds}.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const patience = 2 * time.Minute

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rabbitclient:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 5 {
		return errors.New("usage: rabbitclient quorum|stream URL NAME MESSAGES BYTES")
	}
	messages, err1 := strconv.Atoi(args[3])
	size, err2 := strconv.Atoi(args[4])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	publish, consume, err := work(args[1], args[2], args[0], messages, make([]byte, size))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{"Publish": publish.Seconds(), "Consume": consume.Seconds()})
}

// work publishes persistent messages to a quorum queue or a stream with publisher
// confirms and any number under way, and consumes from the beginning with
// acknowledgements of 500 at a time. Both go over AMQP 0-9-1: the Go client of
// the stream protocol (1.8.3) stalls behind its 10,000th message against the
// server that Debian has (3.10).
func work(url, name, kind string, messages int, body []byte) (publish, consume time.Duration, err error) {
	conn, err := amqp091.Dial(url)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return 0, 0, err
	}
	if _, err := ch.QueueDeclare(name, true, false, false, false, amqp091.Table{"x-queue-type": kind}); err != nil {
		return 0, 0, err
	}
	if err := ch.Confirm(false); err != nil {
		return 0, 0, err
	}
	at := time.Now()
	confirms := make([]*amqp091.DeferredConfirmation, messages)
	for i := range confirms {
		confirms[i], err = ch.PublishWithDeferredConfirmWithContext(context.Background(), "", name, false, false,
			amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: body})
		if err != nil {
			return 0, 0, err
		}
	}
	for _, c := range confirms {
		if !c.Wait() {
			return 0, 0, errors.New("a message was refused")
		}
	}
	publish = time.Since(at)
	if err := ch.Qos(2000, 0, false); err != nil {
		return 0, 0, err
	}
	at = time.Now()
	var from amqp091.Table
	if kind == "stream" {
		from = amqp091.Table{"x-stream-offset": "first"}
	}
	in, err := ch.Consume(name, "", false, false, false, false, from)
	if err != nil {
		return 0, 0, err
	}
	for n := 1; n <= messages; n++ {
		select {
		case d, ok := <-in:
			if !ok {
				return 0, 0, errors.New("the consumer was closed")
			}
			if n%500 == 0 || n == messages {
				if err := d.Ack(true); err != nil {
					return 0, 0, err
				}
			}
		case <-time.After(patience):
			return 0, 0, fmt.Errorf("%d of %d messages came", n-1, messages)
		}
	}
	consume = time.Since(at)
	_, err = ch.QueueDelete(name, false, false, false)
	return publish, consume, err
}
