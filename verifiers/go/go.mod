module verify-chain

go 1.19
