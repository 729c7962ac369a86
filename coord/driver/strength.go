package driver

// Strength is what a service promises beyond the contract.
type Strength struct{}
