module github.com/fiftyhosts/fifty/internal/e2e/stripeclient

go 1.26.0

require github.com/stripe/stripe-go/v85 v85.0.0
