package sandbox

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a charge.
const (
	AccountMax = 255             // bytes of an account's name
	AmountMax  = 999_999_999_999 // minor units; sums of many still fit an int64
)

// Charge is one entry of the ledger. It is never changed.
type Charge struct {
	ID       string    `json:"id"` // made by the sandbox, never taken from the client
	Account  string    `json:"account"`
	Amount   int64     `json:"amount"`   // in the currency's minor unit: cents of a euro
	Currency string    `json:"currency"` // three capital letters, as in ISO 4217
	Created  time.Time `json:"created"`  // by this host's clock, whole microseconds in UTC
}

// newID names a charge. 128 random bits: two hosts never make the same.
func newID() string { return "ch_" + strings.ToLower(rand.Text()) }

// parseCharge reads the body of a POST: one JSON object with exactly the members account, amount and
// currency, each once, spelled so. The error is a sentence for the client.
func parseCharge(body []byte) (Charge, error) {
	var c Charge
	if !utf8.Valid(body) {
		return c, errors.New("the body is not UTF-8")
	}
	members, err := parseMembers(body)
	if err != nil {
		return c, err
	}
	if c.Account, err = parseAccount(members["account"]); err != nil {
		return c, err
	}
	if c.Amount, err = parseAmount(members["amount"]); err != nil {
		return c, err
	}
	c.Currency, err = parseCurrency(members["currency"])
	return c, err
}

// parseMembers takes the object apart by hand: encoding/json alone would accept a name twice and in any
// case, and a payment must not depend on which of two amounts won.
func parseMembers(body []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New(`the body is not a JSON object; send {"account":"alice","amount":1200,"currency":"EUR"}`)
	}
	members := make(map[string]any, 3)
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("the body is not JSON: %w", err)
		}
		name, _ := t.(string)
		switch name {
		case "account", "amount", "currency":
		default:
			return nil, fmt.Errorf("there is no field %q; send account, amount and currency", name)
		}
		if _, twice := members[name]; twice {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s is not JSON: %w", name, err)
		}
		members[name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, errors.New("the body ends within the JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return members, nil
}

func parseAccount(value any) (string, error) {
	account, ok := value.(string)
	switch {
	case !ok || account == "":
		return "", errors.New("account must be a string that is not empty")
	case len(account) > AccountMax:
		return "", fmt.Errorf("account has %d bytes; at most %d are allowed", len(account), AccountMax)
	case !isText(account):
		return "", errors.New("account has a control character or a broken one")
	}
	return account, nil
}

// isText refuses what a database might refuse (NUL, broken UTF-8) and what JSON makes of half a surrogate
// pair.
func isText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
}

func parseAmount(value any) (int64, error) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, errors.New("amount must be a number: whole, positive, in the currency's minor unit")
	}
	if strings.ContainsAny(string(number), ".eE") {
		return 0, fmt.Errorf("amount %s must be written as a whole number of the currency's minor unit", number)
	}
	amount, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || amount > AmountMax {
		return 0, fmt.Errorf("amount %.40s is out of range; at most %d is allowed", string(number), int64(AmountMax))
	}
	if amount <= 0 {
		return 0, fmt.Errorf("amount %s must be positive", number)
	}
	return amount, nil
}

func parseCurrency(value any) (string, error) {
	currency, ok := value.(string)
	if !ok || len(currency) != 3 {
		return "", errors.New("currency must be a code of three letters, such as EUR")
	}
	currency = strings.ToUpper(currency)
	for _, r := range currency {
		if r < 'A' || r > 'Z' {
			return "", errors.New("currency must be a code of three letters, such as EUR")
		}
	}
	return currency, nil
}
