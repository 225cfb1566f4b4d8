package consumer

import (
	"strings"
	"testing"
	"time"
)

// TestConfigIsChecked: a configuration that cannot work is refused, with a reason.
func TestConfigIsChecked(t *testing.T) {
	good := Config{Brokers: []string{"127.0.0.1:1"}, Group: "g", Topics: []string{"t"}}
	for want, change := range map[string]func(*Config){
		"Brokers is empty":       func(c *Config) { c.Brokers = nil },
		"Group is empty":         func(c *Config) { c.Group = "" },
		"Topics is empty":        func(c *Config) { c.Topics = nil },
		"both consumed and":      func(c *Config) { c.QuarantineTopic = "t" },
		"need a QuarantineTopic": func(c *Config) { c.MaxAttempts = 3 },
		"is negative":            func(c *Config) { c.MaxAttempts = -1 },
		"PartitionWindow":        func(c *Config) { c.PartitionWindow = 1 << 20 },
		"would expel":            func(c *Config) { c.DrainTimeout = time.Minute },
	} {
		cfg := good
		change(&cfg)
		if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	cfg, err := good.withDefaults()
	if err != nil || cfg.TotalBytes != 32<<20 || cfg.FetchBytes != 8<<20 || cfg.MetadataLimit != 1024 || cfg.QuarantineBudget.Free != 1 {
		t.Errorf("defaults: %+v, %v", cfg, err)
	}
}

// TestCallsInTheWrongOrder answer with words, not with a hang.
func TestCallsInTheWrongOrder(t *testing.T) {
	cl, _ := fake(t)
	c, err := Open(cl.config("g", cl.topic(t, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Line(ctxOf(t)); err != errNotHandling {
		t.Errorf("Line before Handle: %v", err)
	}
	if err := c.Handle(nil); err == nil {
		t.Error("a nil handler was taken")
	}
	stop(t, c)
	if err := c.Handle(hold().handle); err != ErrClosed {
		t.Errorf("Handle after Close: %v", err)
	}
	if err := c.Drain(ctxOf(t)); err != ErrClosed {
		t.Errorf("Drain after Close: %v", err)
	}
	stop(t, c) // again
}
