import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Base64;

/**
 * Runs the Java verifier many times in one virtual machine, for the vectors: starting one costs more than the verdict.
 *
 * A line of standard input is a file for the verdict and the arguments, each in base64 and separated by spaces; the
 * answer is a line with the exit status.
 */
final class Batch {
    public static void main(String[] unused) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = Arrays.stream(line.split(" ", -1))
                .map(word -> new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8))
                .toArray(String[]::new);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            int status = VerifyChain.status(out, Arrays.copyOfRange(words, 1, words.length));
            Files.write(Path.of(words[0]), out.toByteArray());
            System.out.println(status);
            System.out.flush();
        }
    }
}
