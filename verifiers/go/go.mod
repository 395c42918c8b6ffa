module verify-chain

go 1.22
