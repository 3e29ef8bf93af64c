module tenon.example/tools

go 1.21
