package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// limit is a check beyond the type, with its words for people.
type limit struct {
	words string
	check func(string) error
	// distinct lists lose an element that comes again, as Kafka's ValidList does
	// when it parses.
	distinct bool
}

var free = limit{}

func atLeast(low int64) limit {
	return limit{
		words: fmt.Sprintf("at least %d", low),
		check: func(v string) error {
			if f, err := strconv.ParseFloat(trim(v), 64); err != nil || f < float64(low) {
				return fmt.Errorf("must be at least %d", low)
			}
			return nil
		},
	}
}

func between(low, high float64) limit {
	lo, hi := formatNumber(low), formatNumber(high)
	return limit{
		words: lo + " to " + hi,
		check: func(v string) error {
			// NaN compares false with everything and so is refused too.
			if f, err := strconv.ParseFloat(trim(v), 64); err != nil || !(f >= low && f <= high) {
				return fmt.Errorf("must be between %s and %s", lo, hi)
			}
			return nil
		},
	}
}

func formatNumber(f float64) string {
	if f == math.Trunc(f) {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func oneOf(values ...string) limit {
	words := strings.Join(values, ", ")
	return limit{words: words, check: func(v string) error {
		if !slices.Contains(values, trim(v)) {
			return fmt.Errorf("must be one of %s", words)
		}
		return nil
	}}
}

func oneOfFold(values ...string) limit {
	words := strings.Join(values, ", ")
	return limit{words: words, check: func(v string) error {
		if !slices.ContainsFunc(values, func(s string) bool { return strings.EqualFold(s, trim(v)) }) {
			return fmt.Errorf("must be one of %s", words)
		}
		return nil
	}}
}

// listOf is Kafka's ValidList (KIP-1161): no empty elements, and either only the
// given values or none twice.
func listOf(emptyAllowed bool, values ...string) limit {
	words := "no duplicates"
	if len(values) > 0 {
		words = "any of " + strings.Join(values, ", ")
	}
	if !emptyAllowed {
		words += "; not empty"
	}
	return limit{words: words, distinct: true, check: func(v string) error { return checkList(v, emptyAllowed, values) }}
}

func checkList(v string, emptyAllowed bool, values []string) error {
	items := SplitList(v)
	if len(items) == 0 && !emptyAllowed {
		return errors.New("must not be empty")
	}
	for i, it := range items {
		if it == "" {
			return errors.New("has an empty element")
		}
		if len(values) == 0 && slices.Contains(items[:i], it) { // of the given values Kafka drops those that come again
			return fmt.Errorf("names %q twice", it)
		}
		if len(values) > 0 && !slices.Contains(values, it) {
			return fmt.Errorf("%q is not one of %s", it, strings.Join(values, ", "))
		}
	}
	return nil
}

var notEmpty = limit{words: "not empty", check: func(v string) error {
	if trim(v) == "" {
		return errors.New("must not be empty")
	}
	return nil
}}

var gzipLevel = limit{words: "1 to 9, or -1", check: func(v string) error {
	if n, err := strconv.Atoi(trim(v)); err != nil || n != -1 && (n < 1 || n > 9) {
		return errors.New("must be between 1 and 9, or -1")
	}
	return nil
}}

var throttledPair = regexp.MustCompile(`^([0-9]+:[0-9]+)?$`)

// throttledReplicas follows ThrottledReplicaListValidator.
var throttledReplicas = limit{words: "PARTITION:BROKER pairs, or *", check: func(v string) error {
	items := SplitList(v)
	if strings.Join(items, "") == "*" {
		return nil
	}
	for _, it := range items {
		if !throttledPair.MatchString(it) {
			return fmt.Errorf("%q is not PARTITION:BROKER; write * for all replicas", it)
		}
	}
	return nil
}}

var isoDuration = regexp.MustCompile(`^P(?:\d+D)?(?:T(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?$`)

// shareReset follows ShareGroupAutoOffsetResetStrategy (KIP-932).
var shareReset = limit{words: "latest, earliest or by_duration:DURATION", check: func(v string) error {
	v = trim(v)
	if v == "latest" || v == "earliest" {
		return nil
	}
	d, ok := strings.CutPrefix(v, "by_duration:")
	if ok && isoDuration.MatchString(d) && d != "P" && !strings.HasSuffix(d, "T") {
		return nil
	}
	return errors.New("must be latest, earliest or by_duration: and an ISO 8601 duration such as PT6H")
}}

var matchNames = []string{"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port"}

// clientMatch follows ClientMetricsConfigs.parseMatchingPatterns (KIP-714).
var clientMatch = limit{words: "NAME=PATTERN pairs", check: func(v string) error {
	if err := checkList(v, true, nil); err != nil {
		return err
	}
	for _, it := range SplitList(v) {
		name, pattern, ok := strings.Cut(it, "=")
		if !ok || strings.Contains(pattern, "=") {
			return fmt.Errorf("%q is not NAME=PATTERN", it)
		}
		if !slices.Contains(matchNames, trim(name)) {
			return fmt.Errorf("%q is not one of %s", trim(name), strings.Join(matchNames, ", "))
		}
		if _, err := regexp.Compile(trim(pattern)); err != nil {
			return fmt.Errorf("pattern %q does not compile", trim(pattern))
		}
	}
	return nil
}}

var voters = limit{words: "ID@HOST:PORT", check: func(v string) error {
	_, err := ParseVoters(v)
	return err
}}

var hostPorts = limit{words: "HOST:PORT", check: func(v string) error {
	for _, it := range SplitList(v) {
		if _, _, err := splitHostPort(it); err != nil {
			return fmt.Errorf("%q is not HOST:PORT", it)
		}
	}
	return nil
}}

var durabilityLimit = limit{words: "strict, replicated, relaxed", check: func(v string) error {
	_, err := ParseDurability(trim(v))
	return err
}}
